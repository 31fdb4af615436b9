"""How many bytes of events a task keeps in memory. What does not fit is read again when its turn comes."""

from __future__ import annotations

from penstock.dispatcher.matched.record import Matched


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
