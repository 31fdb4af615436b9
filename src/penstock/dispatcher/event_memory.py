"""Events in memory: how many bytes a task holds, and the newest records for routes that are slightly behind.

`Memory` counts the records that deliveries hold; an event that does not fit is read again when it is its turn. `Recent`
keeps the newest records of a partition while some route is behind them: a route that gets more than it can take falls
behind by a little again and again, and reading the same records from Kafka again would make it slower still. Routes
that are further behind read Kafka.
"""

from __future__ import annotations

from bisect import bisect_left

from penstock.dispatcher.matched_record import Matched
from penstock.kafka.random_reader import Chunk


class Recent:
    """The newest records of a partition without a gap, up to a limit of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._size = limit_bytes, 0
        self._records: list[Matched] = []

    def follow(self, record: Matched, behind: bool) -> None:
        """Adds the next record of the tail if some route is behind it. The older half is dropped at the limit."""
        if not behind:
            self.clear()
            return
        self._records.append(record)
        self._size += record.size
        if self._size > self._limit:
            old = (len(self._records) + 1) // 2
            self._size -= sum(gone.size for gone in self._records[:old])
            del self._records[:old]

    def clear(self) -> None:
        """Drops all records: no route is behind."""
        if self._records:
            self._records, self._size = [], 0

    def chunk(self, begin: int, end: int) -> Chunk[Matched] | None:
        """The records from `begin` to `end`, exclusive, which the tail has read; None if some are not in memory."""
        if not self._records or begin < self._records[0].offset:
            return None
        return Chunk(begin, end, self._records[self._index(begin) : self._index(end)])

    def _index(self, offset: int) -> int:
        return bisect_left(self._records, offset, key=lambda record: record.offset)


class Memory:
    """Counts the records that deliveries hold, each once however many hold it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.held = 0

    def hold(self, record: Matched) -> Matched | None:
        """The record if it fits, None if memory is used up."""
        if record.references == 0:
            if self.held + record.size > self._limit:
                return None
            self.held += record.size
        record.references += 1
        return record

    def release(self, record: Matched | None) -> None:
        """One delivery no longer needs the record."""
        if record is None or record.references == 0:
            return
        record.references -= 1
        if record.references == 0:
            self.held -= record.size

    @property
    def tight(self) -> bool:
        """Whether deliveries that wait should release their records."""
        return self.held * 2 > self._limit
