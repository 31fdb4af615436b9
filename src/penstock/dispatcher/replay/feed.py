"""The events that a Replay reads in one partition, in order and chunk by chunk; and the rate at which it delivers."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from penstock.dispatcher.matched_record import Matched
from penstock.kafka.random_reader import Chunk, NotReadNow

RETRY_SECONDS = 1.0
"""Pause before a partition that did not respond is read again."""


class StoredEvents(Protocol):
    """Random access to the events that are retained."""

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """The events from `begin` to `end`, exclusive. The chunk begins later, perhaps beyond `end`, if the first of
        them were removed, and may end earlier. Raises HistoryProblem where that is unknown."""

    async def record(self, partition: int, offset: int) -> Matched | None:
        """One event; None where it was removed. Raises HistoryProblem where that is unknown."""


class Feed:
    """All events from a position to an end; or, where `only` is given, those with these offsets."""

    def __init__(
        self,
        events: StoredEvents,
        partition: int,
        position: int,
        end: int,
        *,
        at_once: int,
        only: Sequence[int] | None = None,
    ) -> None:
        self._events, self._partition, self._at_once, self._only = events, partition, at_once, only
        self.waiting: deque[Matched] = deque()
        """What was read and not handled yet."""
        self.read_to, self.end = min(position, end), end
        """Everything before `read_to` was read."""
        self._missing = 0
        self._reading: asyncio.Task[None] | None = None

    @property
    def exhausted(self) -> bool:
        """Whether everything has been handled."""
        return not self.waiting and self.read_to >= self.end

    def take_missing(self) -> int:
        """How many offsets were found to be removed since the last call."""
        missing, self._missing = self._missing, 0
        return missing

    async def read(self, seconds: float) -> bool:
        """Reads the next chunk. False where that takes longer: reading continues, and the next call waits for it."""
        if self._reading is None:
            self._reading = asyncio.create_task(
                self._read_chunk() if self._only is None else self._read_offsets(self._only)
            )
        await asyncio.wait([self._reading], timeout=seconds)
        if not self._reading.done():
            return False
        reading, self._reading = self._reading, None
        reading.result()
        return True

    def close(self) -> None:
        """Ends reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read_chunk(self) -> None:
        begin, end = self.read_to, min(self.end, self.read_to + self._at_once)
        chunk = await self._events.chunk(self._partition, begin, end)
        self._missing += min(chunk.begin, self.end) - begin
        self.waiting.extend(record for record in chunk.records if record.offset < self.end)
        self.read_to = min(self.end, max(chunk.begin, chunk.end))

    async def _read_offsets(self, only: Sequence[int]) -> None:
        first = bisect_left(only, self.read_to)
        wanted = [offset for offset in only[first : first + self._at_once] if offset < self.end]
        found = await asyncio.gather(*map(self._record, wanted))
        self._missing += found.count(None)
        self.waiting.extend(record for record in found if record is not None)
        ends = first + self._at_once >= len(only) or not wanted
        self.read_to = self.end if ends else wanted[-1] + 1

    async def _record(self, offset: int) -> Matched | None:
        while True:
            try:
                return await self._events.record(self._partition, offset)
            except NotReadNow:
                await asyncio.sleep(RETRY_SECONDS)


BURST_SECONDS = 0.25
"""Seconds of the rate that may accumulate while a Replay waits for capacity: a rate should not allow bursts."""


class ReplayPace:
    """The rate limit of one Replay in one task. Pure: time is passed in."""

    def __init__(self, rate: float | None, now: float) -> None:
        """`rate`: events per second; None: no limit."""
        self._rate, self._at = rate, now
        self._saved = 1.0

    def may(self, now: float) -> bool:
        """Whether another delivery may begin."""
        if self._rate is None:
            return True
        most = max(1.0, self._rate * BURST_SECONDS)
        self._saved = min(most, self._saved + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._saved >= 1.0

    def begun(self) -> None:
        """One has."""
        self._saved -= 1.0


def share(rate: float | None, partitions: int, of: int) -> float | None:
    """The part of a rate for a task that has so many of all partitions."""
    return None if rate is None else rate * partitions / max(1, of)
