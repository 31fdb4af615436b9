"""The events that a Replay looks at in one partition, a piece at a time, in the order in which they came."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from penstock.dispatcher.matched.record import Matched
from penstock.log.random_reader import Chunk


class StoredEvents(Protocol):
    """Random access to the events that are kept."""

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        """The events from `begin` to `end`, exclusive; fewer where retention removed them."""

    async def record(self, partition: int, offset: int) -> Matched | None:
        """One event; None where it is no longer kept."""


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

    @property
    def exhausted(self) -> bool:
        """Whether everything has been looked at."""
        return not self.waiting and self.read_to >= self.end

    def take_missing(self) -> int:
        """How many offsets were found to be gone since this was asked last."""
        missing, self._missing = self._missing, 0
        return missing

    async def read(self) -> None:
        """Reads the next piece."""
        if self._only is None:
            await self._read_chunk()
        else:
            await self._read_some(self._only)

    async def _read_chunk(self) -> None:
        begin, end = self.read_to, min(self.end, self.read_to + self._at_once)
        chunk = await self._events.chunk(self._partition, begin, end)
        self._missing += min(chunk.begin, end) - begin
        self.waiting.extend(chunk.records)
        self.read_to = end

    async def _read_some(self, only: Sequence[int]) -> None:
        first = bisect_left(only, self.read_to)
        wanted = [offset for offset in only[first : first + self._at_once] if offset < self.end]
        found = await asyncio.gather(*(self._events.record(self._partition, offset) for offset in wanted))
        self._missing += found.count(None)
        self.waiting.extend(record for record in found if record is not None)
        ends = first + self._at_once >= len(only) or not wanted
        self.read_to = self.end if ends else wanted[-1] + 1
