"""Checks that `penstock.events` is still the log that everything else refers to. Pure.

Records of `penstock.matched`, cursors and the starts of routes name events by their offsets. In a copy of the log (by
MirrorMaker, which does not keep offsets), in a topic that was created again, or after an unclean leader election, the
same offsets mean other events, and new events look like events that were delivered long ago: nothing would be
delivered, and nothing would fail. So every component that resumes from an offset checks it first and may refuse it.
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
    "pipeline and run penstock topics --adopt-events to continue with this one"
)
_BEGINS = "penstock.events is not the log that routes and cursors refer to: "

_ID, _SOURCE = kafka.PREFIX + "id", kafka.PREFIX + "source"

Identity = tuple[bytes | None, ...]


class KnownEvent(msgspec.Struct, frozen=True, array_like=True):
    """The fingerprint of an event that was delivered, or of a marker: the record at this offset must still have it."""

    offset: Count
    fingerprint: str


class AnotherLog(RuntimeError):
    """`penstock.events` holds other events than before, or fewer."""

    def __init__(self, found: str) -> None:
        self.what = f"{_BEGINS}{found}."
        super().__init__(f"{self.what} {ADVICE}")

    @staticmethod
    def found_in(text: str) -> AnotherLog | None:
        """This error in the error message of another process; None where the message is about something else."""
        _, begins, rest = text.partition(_BEGINS)
        return AnotherLog(rest.partition(f". {ADVICE}")[0].splitlines()[0]) if begins else None


def identity(pairs: Iterable[tuple[str, bytes | None]]) -> Identity:
    """What identifies an event, or a marker, in `penstock.events` and `penstock.matched`; empty for other records."""
    values = dict(pairs)
    if records.MARKER in values:
        return (values[records.MARKER],)
    found = values.get(_ID), values.get(_SOURCE)
    return found if any(found) else ()


def known(offset: int, pairs: Iterable[tuple[str, bytes | None]]) -> KnownEvent | None:
    """The fingerprint of the event, or marker, at an offset; None for other records."""
    found = identity(pairs)
    if not found:
        return None
    parts = b"\n".join(part or b"" for part in found)
    return KnownEvent(offset, hashlib.blake2b(parts, digest_size=8).hexdigest())


def check_known(partition: int, before: KnownEvent, found: KnownEvent | None) -> None:
    """The event that was delivered from an offset must still be there. Raises AnotherLog."""
    if found is not None and found != before:
        raise AnotherLog(
            f"at offset {before.offset} of partition {partition} is another event than the one delivered from there"
        )


def check_id(noted: str, found: str) -> None:
    """The topic id must be the recorded one, if one was recorded. Raises AnotherLog."""
    if noted and found and noted != found:
        raise AnotherLog(f"its topic id is {found}, and it was {noted}")


def check_end(partition: int, begin: int, end: int, what: str) -> None:
    """An offset to resume from must not be beyond the end of the partition. Raises AnotherLog."""
    if begin > end:
        raise AnotherLog(f"partition {partition} ends at {end}, and {what} resumes from {begin}")


def check_starts(starts: Iterable[tuple[str, Sequence[int]]], ends: Sequence[int]) -> None:
    """No route may begin beyond the end of a partition. Raises AnotherLog."""
    for uid, start in starts:
        for partition, (begin, end) in enumerate(zip(start, ends, strict=False)):
            check_end(partition, begin, end, f"the route {uid}")


def check_same(partition: int, offset: int, routed: Identity, found: Identity) -> None:
    """The event that was routed from an offset must be the one that is there. Raises AnotherLog."""
    if routed and found and routed != found:
        raise AnotherLog(f"at offset {offset} of partition {partition} is another event than the one routed from there")
