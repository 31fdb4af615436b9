"""Whether `penstock.events` is the log that everything else refers to. Pure.

Records of `penstock.matched`, cursors and the starts of routes name events by their offsets. In a copy of the log (by
MirrorMaker, which does not keep offsets), in a topic that was made again, or after an unclean election of a leader, the
same offsets mean other events, and new events look like ones that were delivered long ago. Nothing would be delivered,
and nothing would fail. So who goes on from such an offset looks first, and refuses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from penstock.contract import records
from penstock.contract.routes import Count
from penstock.events import kafka_binding as kafka

ADVICE = (
    "Nothing is delivered until you decide: bring that log back, or, where it is gone for good, stop every control and "
    "pipeline and have penstock topics --adopt-events go on with this one"
)
_BEGINS = "penstock.events is not the log that routes and cursors refer to: "

_ID, _SOURCE = kafka.PREFIX + "id", kafka.PREFIX + "source"

Identity = tuple[bytes | None, ...]


class KnownEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that was delivered, or a marker: what is at this offset now has to be the same."""

    offset: Count
    fingerprint: str


class AnotherLog(RuntimeError):
    """`penstock.events` holds other events than it did, or fewer."""

    def __init__(self, found: str) -> None:
        self.what = f"{_BEGINS}{found}."
        super().__init__(f"{self.what} {ADVICE}")

    @staticmethod
    def told_in(text: str) -> AnotherLog | None:
        """The same, from what another process has said at its end; None where it ended for another reason."""
        _, begins, rest = text.partition(_BEGINS)
        return AnotherLog(rest.partition(f". {ADVICE}")[0].splitlines()[0]) if begins else None


def identity(pairs: Iterable[tuple[str, bytes | None]]) -> Identity:
    """What tells an event, or a marker, from others, in `penstock.events` and in `penstock.matched` alike; empty where
    it is neither."""
    values = dict(pairs)
    if records.MARKER in values:
        return (values[records.MARKER],)
    found = values.get(_ID), values.get(_SOURCE)
    return found if any(found) else ()


def known(offset: int, pairs: Iterable[tuple[str, bytes | None]]) -> KnownEvent | None:
    """What is kept of the event, or marker, at an offset; None where it is neither."""
    found = identity(pairs)
    if not found:
        return None
    parts = b"\n".join(part or b"" for part in found)
    return KnownEvent(offset, hashlib.blake2b(parts, digest_size=8).hexdigest())


def check_known(partition: int, before: KnownEvent, found: KnownEvent | None) -> None:
    """What was delivered from an offset has to be there still. Raises AnotherLog."""
    if found is not None and found != before:
        raise AnotherLog(
            f"at offset {before.offset} of partition {partition} is another event than the one delivered from there"
        )


def check_id(noted: str, found: str) -> None:
    """The topic has to be the one that was noted, if any was. Raises AnotherLog."""
    if noted and found and noted != found:
        raise AnotherLog(f"its topic id is {found}, and it was {noted}")


def check_end(partition: int, begin: int, end: int, what: str) -> None:
    """What goes on from an offset may not be beyond the end of the partition. Raises AnotherLog."""
    if begin > end:
        raise AnotherLog(f"partition {partition} ends at {end}, and {what} goes on from {begin}")


def check_starts(starts: Iterable[tuple[str, Sequence[int]]], ends: Sequence[int]) -> None:
    """No route begins with events that are not there yet. Raises AnotherLog."""
    for uid, start in starts:
        for partition, (begin, end) in enumerate(zip(start, ends, strict=False)):
            check_end(partition, begin, end, f"the route {uid}")


def check_same(partition: int, offset: int, routed: Identity, found: Identity) -> None:
    """The event that was routed from an offset has to be the one that is there. Raises AnotherLog."""
    if routed and found and routed != found:
        raise AnotherLog(f"at offset {offset} of partition {partition} is another event than the one routed from there")
