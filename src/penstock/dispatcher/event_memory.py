"""The newest records of a partition, kept while some route is behind them.

A route that more comes for than it can take falls behind by a little again and again; to read for it once more what
the tail has just read would make it slower still. Whoever is further behind reads Kafka.
"""

from __future__ import annotations

from bisect import bisect_left

from penstock.dispatcher.matched_record import Matched
from penstock.kafka.random_reader import Chunk


class Recent:
    """A bounded number of bytes of records, one after the other without a gap."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._size = limit_bytes, 0
        self._records: list[Matched] = []

    def follow(self, record: Matched, behind: bool) -> None:
        """The next record of the tail, kept if some route is behind it. The older half goes when there is no room."""
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
        """Nobody is behind: the next record that is kept begins anew."""
        if self._records:
            self._records, self._size = [], 0

    def chunk(self, begin: int, end: int) -> Chunk[Matched] | None:
        """The records from `begin` to `end`, exclusive, which the tail has read; None where some are not here."""
        if not self._records or begin < self._records[0].offset:
            return None
        return Chunk(begin, end, self._records[self._place(begin) : self._place(end)])

    def _place(self, offset: int) -> int:
        return bisect_left(self._records, offset, key=lambda record: record.offset)


# How many bytes of events a task keeps in memory. What does not fit is read again when its turn comes.


class Memory:
    """Counts the records that deliveries hold, each once however many hold it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.held = 0

    def hold(self, record: Matched) -> Matched | None:
        """The record if it may be kept, None if memory is used up."""
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
        """Whether deliveries that wait should let go of their records."""
        return self.held * 2 > self._limit
