"""Events that Kafka has forgotten, from the history's table: read in a thread, beside what Kafka still has."""

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
    """What is needed of the history. Blocks; used by one thread only. Raises HistoryProblem."""

    def stretch(self, partition: int, offset: int, *, newest: bool = False) -> Stretch | None:
        """The first offsets from this one on of which the table has every event. It may be the table of a moment ago,
        unless the newest is asked for."""

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        """The events in between, as records."""

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        """By partition, the offsets of which the table has every event, of those that came since then."""

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        """Offsets of events that a route gave up."""


class EventArchive:
    """Random access to all events that are kept, in Kafka or in the table."""

    def __init__(self, stored: StoredEvents, table: HistoryTable | None, *, strict: bool = False) -> None:
        """Without a table, what Kafka has forgotten is gone. Where the table cannot be read, that is so as well, unless
        it is `strict`: then it raises HistoryProblem."""
        self._stored, self._table, self._strict = stored, table, strict
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._forgotten: dict[int, int] = {}
        """By partition, an offset before which Kafka has nothing any more."""
        self._complained = False

    def close(self) -> None:
        """Ends reading; what was asked for is never answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """See StoredEvents."""
        recent: Chunk[Matched] | None = None
        if self._table is None or end > self._forgotten.get(partition, 0):
            recent = await self._stored.chunk(partition, begin, end)
            if self._table is None or recent.begin <= begin:
                return recent
            self._forgotten[partition] = recent.begin
        gone = self._forgotten[partition]
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
        """By partition, what the table has of the events that came since then; nothing where it cannot be read."""
        table = self._table
        if table is None:
            return {}
        try:
            return await self._ask(lambda: table.lasting(since()), {})
        except HistoryProblem:
            return {}

    async def given_up(self, partition: int, replay: Replay) -> list[int]:
        """What the table knows of events that the route gave up which a Replay names."""
        if self._table is None or replay.given_up_by is None:
            return []
        table, wanted = self._table, GivenUpBy(replay.given_up_by, replay.since, replay.until, replay.reason)
        return await self._ask(lambda: table.given_up(partition, wanted), [])

    async def _older(self, table: HistoryTable, partition: int, begin: int, end: int) -> Chunk[Matched] | None:
        """What the table has from `begin` on, at most up to `end`; None where it has nothing.

        Markers are not in the table, so it is not by its rows that a loss is known. What seems to be missing may have
        been written since the table was looked at, and before Kafka removed it: so it is looked at again.
        """

        def look() -> tuple[Stretch, list[LogRecord]] | None:
            found = table.stretch(partition, begin)
            if found is None or found.first > begin or found.end < end:
                found = table.stretch(partition, begin, newest=True)
            if found is None:
                return None
            return found, table.read(partition, found.first, min(found.end, end)) if found.first < end else []

        found = await self._ask(look, None)
        if found is None:
            return None
        (first, last), rows = found
        records = [of_event(one.partition, one.offset, one.at_ms, one.headers, one.value) for one in rows]
        return Chunk(first, max(first, min(last, end)), records)

    async def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        """A table that cannot be read is logged once and has nothing, unless the caller has to know."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, question)
        except HistoryProblem as problem:
            if self._strict:
                raise
            if not self._complained:
                self._complained = True
                log.warning("the history cannot be read; Replays have what Kafka has", problem=str(problem))
            return otherwise
        except Exception as error:
            if self._strict:
                raise HistoryProblem(describe(error)) from error
            raise
