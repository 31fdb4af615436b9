"""What the router's driver needs to know of a record of `penstock.matched`: its origin, its generation, its marker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.contract import event_log, records
from penstock.contract.event_log import Identity

NUMBER_DIGITS = 18
"""Digits of the largest number that is written here."""


@dataclass(frozen=True)
class Marker:
    """The content of a marker."""

    generation: int
    sequence: int
    sent_ms: int

    def encode(self) -> bytes:
        """The value of the marker's header."""
        return f"{self.generation}:{self.sequence}:{self.sent_ms}".encode()


@dataclass(frozen=True)
class MatchedRecord:
    """One record of `penstock.matched`."""

    partition: int
    offset: int
    origin: int
    """The newest event of the partition that has been routed when this record is there."""
    generation: int
    written_ms: int
    marker: Marker | None = None
    fence: bool = False
    """Whether it is a fence, written by the driver to shut former generations out."""
    made_from: int = field(default=-1, compare=False)
    """The offset of its event, or marker, in `penstock.events`; -1 where it was made from none."""
    identity: Identity = field(default=(), compare=False)
    """What identifies that event."""
    follows: int = field(default=-1, compare=False)
    """Of a fence: the generation that counted before its own, 0 for the first; -1 where it does not say."""


def _is_number(raw: bytes) -> bool:
    """Whether it can be an offset, a number of a generation, a time."""
    return raw.isdigit() and len(raw) <= NUMBER_DIGITS


def decode_marker(raw: bytes) -> Marker | None:
    """The marker of a header; None where it is invalid."""
    parts = raw.split(b":")
    if len(parts) != 3 or not all(map(_is_number, parts)):
        return None
    return Marker(*(int(part) for part in parts))


def decode(
    partition: int, offset: int, written_ms: int, pairs: Iterable[tuple[str, bytes | None]] | None
) -> MatchedRecord | None:
    """The record as the router wrote it; None for a foreign record.

    An event whose routes take several records has been routed with the last of them. Should the query end before that,
    the next one begins with this event again, so that the routes of the missing records get it.
    """
    values = {name: raw for name, raw in pairs or () if raw is not None}
    origin, generation = values.get(records.ORIGIN, b""), values.get(records.GENERATION, b"")
    if not (_is_number(origin) and _is_number(generation)):
        return None
    marker = None if records.MARKER not in values else decode_marker(values[records.MARKER])
    routed = int(origin) - 1 if records.PARTS_LEFT in values else int(origin)
    fence = values.get(records.FENCE)
    return MatchedRecord(
        partition,
        offset,
        routed,
        int(generation),
        written_ms,
        marker,
        fence is not None,
        int(origin) if fence is None else -1,
        event_log.identity(values.items()),
        int(fence) if fence is not None and _is_number(fence) else -1,
    )
