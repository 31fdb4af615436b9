"""Whose records count in a partition of `penstock.matched`; `router/generations/fencing.py` has the rule and its proof.

A task of the router that was thought dead may write after its successor's fence. What it decided, by routes that are
no longer in force, reaches nobody. Nothing is lost by that: its successor writes the same events.

The tail knows the newest fence. A route that reads on its own keeps the one in force where it stands, and learns of the
next ones as it comes to them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.contract import records
from penstock.dispatcher.matched_record import OFFSET_DIGITS, Matched


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """From this offset on no record of a lower generation counts."""

    offset: int
    generation: int


class Fences:
    """The newest fence of one partition, as far as its tail was read."""

    def __init__(self, newest: Fence | None = None) -> None:
        self.newest = newest
        self._text = str(newest.generation).encode() if newest is not None else b""

    def see(self, record: Matched) -> None:
        """Takes a record of the tail that is for no route: it may be a fence. One of a lower generation is none: it is
        that of a router which does not know that it was replaced."""
        generation = fence_of(record)
        if generation > self.in_force:
            self.newest = Fence(record.offset, generation)
            self._text = str(generation).encode()

    def shut_out(self, record: Matched) -> bool:
        """Whether the record counts for nobody. Almost every one is of the newest generation, which costs a look."""
        if self.newest is None or record.fields.get(records.GENERATION) == self._text:
            return False
        return is_below(self.newest.generation, record)

    @property
    def in_force(self) -> int:
        """The generation below which no record counts at the tail; 0 where none is shut out."""
        return 0 if self.newest is None else self.newest.generation


def newest_before(offset: int, fences: Iterable[Fence]) -> int:
    """The generation of the fence in force at an offset, as far as these tell; 0 where none is."""
    return max((fence.generation for fence in fences if fence.offset < offset), default=0)


def fence_of(record: Matched) -> int:
    """The generation whose fence the record is; 0 where it is none."""
    return (generation_of(record) or 0) if records.FENCE in record.fields else 0


def is_below(fence: int, record: Matched) -> bool:
    """Whether a fence that stands before the record shuts it out."""
    generation = generation_of(record)
    return generation is not None and generation < fence


def generation_of(record: Matched) -> int | None:
    """The generation of the router that wrote the record; None where it does not say."""
    raw = record.fields.get(records.GENERATION)
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= OFFSET_DIGITS else None
