"""Which records count in a partition of `penstock.matched`; `router/generations/fencing.py` has the rule and its proof.

A task of the router that was considered dead may write after its successor's fence. Its records, made with routes that
are no longer in force, are ignored. Nothing is lost by that: its successor writes the same events.

The tail knows the newest fence. A route that reads on its own keeps the fence in force at its position, and takes over
the next ones as it reads them.

Where retention has removed records before the tail has read them, a fence may have been among them. Then the fence in
force is unknown until the dispatcher has read which generation routing resumes from: its point is recorded before its
fence is written, so no fence among these records is higher. Until then all routes read the events themselves, and none
of them takes a record; `partition.py` has the details.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.contract import records
from penstock.dispatcher.matched_record import OFFSET_DIGITS, Matched


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """From this offset on, records of lower generations are ignored."""

    offset: int
    generation: int


class Fences:
    """The newest fence of one partition, as far as its tail was read."""

    def __init__(self, newest: Fence | None = None) -> None:
        self.newest = newest
        self._text = str(newest.generation).encode() if newest is not None else b""

    def see(self, record: Matched) -> None:
        """Takes a record of the tail without routes, which may be a fence.

        A fence of a lower generation is ignored: its router does not know yet that it was replaced.
        """
        if generation := fence_of(record):
            self.raise_to(Fence(record.offset, generation))

    def shut_out(self, record: Matched) -> bool:
        """Whether the record is ignored. Almost every one is of the newest generation, which costs one comparison."""
        if self.newest is None or record.fields.get(records.GENERATION) == self._text:
            return False
        return is_below(self.newest.generation, record)

    def raise_to(self, fence: Fence) -> None:
        """Takes a fence that the tail has not read, unless a newer one is known."""
        if fence.generation > self.in_force:
            self.newest = fence
            self._text = str(fence.generation).encode()

    @property
    def in_force(self) -> int:
        """The generation below which records are ignored at the tail; 0 where none are."""
        return 0 if self.newest is None else self.newest.generation


def newest_before(offset: int, fences: Iterable[Fence]) -> int:
    """The generation of the newest of these fences before an offset; 0 where there is none."""
    return max((fence.generation for fence in fences if fence.offset < offset), default=0)


def fence_of(record: Matched) -> int:
    """The generation whose fence the record is; 0 where it is not a fence."""
    return (generation_of(record) or 0) if records.FENCE in record.fields else 0


def follows_of(fence: Matched) -> int:
    """The generation that counted before a fence."""
    return _number(fence.fields.get(records.FENCE)) or 0


def is_below(fence: int, record: Matched) -> bool:
    """Whether a fence before the record shuts it out."""
    generation = generation_of(record)
    return generation is not None and generation < fence


def generation_of(record: Matched) -> int | None:
    """The generation of the router that wrote the record; None where the record has none."""
    return _number(record.fields.get(records.GENERATION))


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= OFFSET_DIGITS else None
