"""The events that a Replay looks at in one partition, a piece at a time, in the order in which they came."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from penstock.dispatcher.matched_record import Matched
from penstock.kafka.random_reader import Chunk, NotReadNow

AGAIN_SECONDS = 1.0
"""After which a partition is asked again that did not answer."""


class StoredEvents(Protocol):
    """Random access to the events that are kept."""

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """The events from `begin` to `end`, exclusive. It begins later, perhaps beyond `end`, where the first of them
        are not kept any more, and may end earlier. Raises HistoryProblem where that cannot be known."""

    async def record(self, partition: int, offset: int) -> Matched | None:
        """One event; None where it is no longer kept. Raises HistoryProblem where that cannot be known."""


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
        """What was read and not looked at yet."""
        self.read_to, self.end = min(position, end), end
        """Everything before `read_to` was read."""
        self._missing = 0
        self._reading: asyncio.Task[None] | None = None

    @property
    def exhausted(self) -> bool:
        """Whether everything has been looked at."""
        return not self.waiting and self.read_to >= self.end

    def take_missing(self) -> int:
        """How many offsets were found to be gone since this was asked last."""
        missing, self._missing = self._missing, 0
        return missing

    async def read(self, seconds: float) -> bool:
        """Reads the next piece. False where that takes longer: it goes on, and the next call waits for the same one."""
        if self._reading is None:
            self._reading = asyncio.create_task(
                self._read_chunk() if self._only is None else self._read_some(self._only)
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

    async def _read_some(self, only: Sequence[int]) -> None:
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
                await asyncio.sleep(AGAIN_SECONDS)


# How many events a Replay may begin with by now: a bucket that fills at its rate. Pure: the time is given in.

BURST_SECONDS = 0.25
"""What may gather while a Replay waits for room. Little: whoever names a rate wants no more at once either."""


class ReplayPace:
    """The pace of one Replay in one task."""

    def __init__(self, rate: float | None, now: float) -> None:
        """`rate` are events a second; None: no limit."""
        self._rate, self._at = rate, now
        self._saved = 1.0

    def may(self, now: float) -> bool:
        """Whether another event may begin."""
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
    """The part of a rate that is for a task with so many partitions of all."""
    return None if rate is None else rate * partitions / max(1, of)
