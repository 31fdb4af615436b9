"""Events that Kafka has forgotten, from the history's table: read in a thread, beside what Kafka still has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import structlog

from penstock.contract.routes import Replay
from penstock.dispatcher.matched.record import Matched, of_event
from penstock.dispatcher.replay.feed import StoredEvents
from penstock.history.reader.kept import FirstKept, GivenUpBy
from penstock.history.schema.problem import HistoryProblem
from penstock.log.random_reader import Chunk
from penstock.log.ranges import LogRecord

log = structlog.get_logger()

T = TypeVar("T")


class KeptTable(Protocol):
    """What is needed of the history. Blocks; used by one thread only. Raises HistoryProblem."""

    def firsts(self, since: float = 0.0) -> dict[int, FirstKept]:
        """Where each partition begins."""

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        """The events in between, as records."""

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        """Offsets of events that a route gave up."""


class FurtherBack:
    """Random access to all events that are kept, in Kafka or in the table."""

    def __init__(self, stored: StoredEvents, table: KeptTable | None) -> None:
        """Without a table, what Kafka has forgotten is gone."""
        self._stored, self._table = stored, table
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._forgotten: dict[int, int] = {}
        """By partition, an offset before which Kafka has nothing any more."""
        self._complained = False

    def close(self) -> None:
        """Ends reading; what was asked for is never answered."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """The events from `begin` to `end`, exclusive. It begins later where nobody has the first of them any more."""
        recent: Chunk[Matched] | None = None
        if self._table is None or end > self._forgotten.get(partition, 0):
            recent = await self._stored.chunk(partition, begin, end)
            if self._table is None or recent.begin <= begin:
                return recent
            self._forgotten[partition] = recent.begin
        older = await self._older(self._table, partition, begin, end if recent is None else min(recent.begin, end))
        records = [*older.records, *(() if recent is None else recent.records)]
        return Chunk(older.begin, end, records)

    async def record(self, partition: int, offset: int) -> Matched | None:
        """One event; None where nobody has it any more."""
        found = await self._stored.record(partition, offset)
        if found is not None or self._table is None:
            return found
        records = (await self._older(self._table, partition, offset, offset + 1)).records
        return records[0] if records else None

    async def given_up(self, partition: int, replay: Replay) -> list[int]:
        """What the table knows of events that the route gave up which a Replay names."""
        if self._table is None or replay.given_up_by is None:
            return []
        table, wanted = self._table, GivenUpBy(replay.given_up_by, replay.since, replay.until, replay.reason)
        return await self._ask(lambda: table.given_up(partition, wanted), [])

    async def _older(self, table: KeptTable, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """What the table has of a range; markers are none of it, so a gap alone is no loss."""

        def look() -> tuple[list[LogRecord], FirstKept | None]:
            return table.read(partition, begin, end), table.firsts().get(partition)

        nothing: tuple[list[LogRecord], FirstKept | None] = ([], None)
        found, first = await self._ask(look, nothing)
        starts = end if first is None else min(max(begin, first.first), end)
        records = [of_event(one.partition, one.offset, one.at_ms, one.headers, one.value) for one in found]
        return Chunk(starts, end, records)

    async def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        """A table that cannot be read is told of once, and has nothing."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, question)
        except HistoryProblem as problem:
            if not self._complained:
                self._complained = True
                log.warning("the history cannot be read; Replays have what Kafka has", problem=str(problem))
            return otherwise
