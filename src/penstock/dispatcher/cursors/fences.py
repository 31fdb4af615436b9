"""Whose records count in a partition of `penstock.matched`; `router/generations/fencing.py` has the rule and its proof.

A task of the router that was thought dead may write after its successor's fence. What it decided, by routes that are
no longer in force, reaches nobody. Nothing is lost by that: its successor writes the same events.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.contract import headers
from penstock.dispatcher.matched.record import OFFSET_DIGITS, Matched

KEPT = 32
"""Fences that are remembered. A route that reads on its own from before the oldest of them takes what stands there."""


class Fence(msgspec.Struct, frozen=True, array_like=True):
    """From this offset on no record of a lower generation counts."""

    offset: int
    generation: int


class Fences:
    """The fences of one partition, as far as its tail was read."""

    def __init__(self, known: Iterable[Fence] = ()) -> None:
        self.known = tuple(known)
        self._newest = self._text()

    def see(self, record: Matched) -> None:
        """Takes a record of the tail that is for no route: it may be a fence. One of a lower generation is none: it is
        that of a router which does not know that it was replaced."""
        if headers.FENCE not in record.fields:
            return
        generation = _generation(record)
        if generation is not None and (not self.known or generation > self.known[-1].generation):
            self.known = (*self.known, Fence(record.offset, generation))[-KEPT:]
            self._newest = self._text()

    def shut_out(self, record: Matched) -> bool:
        """Whether the record counts for nobody. Almost every one is of the newest generation, which costs a look."""
        if not self.known or record.fields.get(headers.GENERATION) == self._newest:
            return False
        generation = _generation(record)
        return generation is not None and any(
            fence.offset < record.offset and generation < fence.generation for fence in self.known
        )

    def _text(self) -> bytes:
        return str(self.known[-1].generation).encode() if self.known else b""


def _generation(record: Matched) -> int | None:
    raw = record.fields.get(headers.GENERATION)
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= OFFSET_DIGITS else None
