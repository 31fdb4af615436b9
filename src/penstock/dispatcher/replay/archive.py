"""All events that are retained: those that Kafka has removed from the history's table, the others from Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import structlog

from penstock.contract.routes import Replay
from penstock.dispatcher.matched_record import Matched, of_event
from penstock.dispatcher.replay.feed import StoredEvents
from penstock.history.reader.table_events import GivenUpBy, Stretch
from penstock.history.schema.columns import HistoryProblem
from penstock.kafka.random_reader import Chunk
from penstock.kafka.ranges import LogRecord
from penstock.observability.logs import describe

log = structlog.get_logger()

T = TypeVar("T")


class HistoryTable(Protocol):
    """The history's table of events. Blocks; used by one thread only. Raises HistoryProblem."""

    def stretch(self, partition: int, offset: int, *, newest: bool = False) -> Stretch | None:
        """The first offsets from this one on of which the table has every event. The table may be slightly out of date,
        unless `newest` is set."""

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        """The events in between, as records."""

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        """By partition, the offsets of which the table has every event, of those accepted since then."""

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        """Offsets of events that a route dropped or dead-lettered."""


class EventArchive:
    """Random access to all events that are retained, in Kafka or in the table."""

    def __init__(self, stored: StoredEvents, table: HistoryTable | None, *, strict: bool = False) -> None:
        """Without a table, what Kafka has removed is gone. The same holds while the table cannot be read, unless the
        archive is `strict`: then it raises HistoryProblem."""
        self._stored, self._table, self._strict = stored, table, strict
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._removed_before: dict[int, int] = {}
        """By partition, an offset before which Kafka has removed everything."""
        self._has_warned = False

    def close(self) -> None:
        """Ends reading; pending reads never return."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """See StoredEvents."""
        recent: Chunk[Matched] | None = None
        if self._table is None or end > self._removed_before.get(partition, 0):
            recent = await self._stored.chunk(partition, begin, end)
            if self._table is None or recent.begin <= begin:
                return recent
            self._removed_before[partition] = recent.begin
        gone = self._removed_before[partition]
        older = await self._older(self._table, partition, begin, min(gone, end))
        if older is None or older.begin >= gone:
            return recent or Chunk(gone, gone, [])
        if recent is None or older.end < gone:
            return older
        return Chunk(older.begin, recent.end, [*older.records, *recent.records], recent.log_end)

    async def record(self, partition: int, offset: int) -> Matched | None:
        """See StoredEvents."""
        found = await self._stored.record(partition, offset)
        if found is not None or self._table is None:
            return found
        older = await self._older(self._table, partition, offset, offset + 1)
        return older.records[0] if older is not None and older.records else None

    async def lasting(self, since: Callable[[], float]) -> dict[int, tuple[Stretch, ...]]:
        """By partition, what the table has of the events accepted since then; nothing where it cannot be read."""
        table = self._table
        if table is None:
            return {}
        try:
            return await self._query(lambda: table.lasting(since()), {})
        except HistoryProblem:
            return {}

    async def given_up(self, partition: int, replay: Replay) -> list[int]:
        """The events that the route named by a Replay dropped or dead-lettered, as far as the table has them."""
        if self._table is None or replay.given_up_by is None:
            return []
        table, wanted = self._table, GivenUpBy(replay.given_up_by, replay.since, replay.until, replay.reason)
        return await self._query(lambda: table.given_up(partition, wanted), [])

    async def _older(self, table: HistoryTable, partition: int, begin: int, end: int) -> Chunk[Matched] | None:
        """What the table has from `begin` on, at most up to `end`; None where it has nothing.

        Markers are not in the table, so a gap between its rows is not a loss. What seems to be missing may have been
        written since the table was loaded, and before Kafka removed it: so the table is loaded again.
        """

        def look() -> tuple[Stretch, list[LogRecord]] | None:
            found = table.stretch(partition, begin)
            if found is None or found.first > begin or found.end < end:
                found = table.stretch(partition, begin, newest=True)
            if found is None:
                return None
            return found, table.read(partition, found.first, min(found.end, end)) if found.first < end else []

        found = await self._query(look, None)
        if found is None:
            return None
        (first, last), rows = found
        records = [of_event(one.partition, one.offset, one.at_ms, one.headers, one.value) for one in rows]
        return Chunk(first, max(first, min(last, end)), records)

    async def _query(self, query: Callable[[], T], otherwise: T) -> T:
        """Runs a query in the thread. A table that cannot be read is logged once and treated as empty, unless
        strict."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, query)
        except HistoryProblem as problem:
            if self._strict:
                raise
            if not self._has_warned:
                self._has_warned = True
                log.warning("the history cannot be read; Replays get only what Kafka still has", problem=str(problem))
            return otherwise
        except Exception as error:  # of any library that reads the table
            if self._strict:
                raise HistoryProblem(describe(error)) from error
            raise
