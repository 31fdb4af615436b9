"""The position of one route in one partition: what it has taken, and which deliveries are outstanding.

`next` is the first origin (offset in `penstock.events`) not yet taken; a record below it was taken before, from an
overlapping generation or a router that repeats itself, and is dropped. Origins in `penstock.matched` may step back when
generation N+1 starts while N still writes. No route loses an event by that: N writes a partition in order and N+1
starts no later than right after N's last record, so an old route saw 103 from N before it saw 105; a new route is only
in what N+1 writes, again in order.

A detached route, which could not keep up with the tail, reads `penstock.matched` on its own, from `resume`. If
retention has removed records there, it reads the events themselves, from `gap`, until it is past all events of those
records.

The record of a cursor is small, however much is outstanding: it lists the deliveries that have just begun, most of
which will have ended by the next flush. A delivery that takes longer gets a record of its own, written when it changes
and deleted when it ends.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import islice

import msgspec


class Stage(enum.IntEnum):
    """Which destination has to accept the event next."""

    SUBSCRIBER = 0
    REPLY = 1
    DEAD_LETTER = 2


STAGE_NAMES = {Stage.SUBSCRIBER: "subscriber", Stage.REPLY: "reply", Stage.DEAD_LETTER: "deadletter"}
"""Their names in attempt records, spans and metrics."""


YOUNG_FLUSHES = 50
"""Flushes that write a delivery within its cursor, unless an attempt of it fails; after that, some seconds later, a
record of its own costs less. Under full load thousands a second wait for a short time, and two records for each of them
would cost more than long cursors do."""


NOT_MATCHED = -1
"""In place of an offset in `penstock.matched`: the event was read from `penstock.events`."""


class Outstanding(msgspec.Struct, array_like=True):
    """One event on its way to one route. Written as an array: there are many of them."""

    origin: int
    matched: int
    """Offset in `penstock.matched`, to read the event again; or NOT_MATCHED."""
    at: int
    """When the record was matched, in Unix milliseconds."""
    key: int = 0
    """Fingerprint of the `partitionkey` on routes that keep its order; 0 elsewhere."""
    stage: Stage = Stage.SUBSCRIBER
    attempt: int = 0
    """Attempts already made in this stage."""
    due: float = 0.0
    """Unix time in seconds before which no attempt is made; 0: at once."""


class Taken(enum.Enum):
    """Why a record was not taken."""

    REPEATED = "repeated"
    FULL = "full"


class Counts(msgspec.Struct):
    """What a Replay has done in a partition."""

    counted: int = 0
    """Events that were selected."""
    failed: int = 0
    """Those of them that were dropped or dead-lettered."""
    missing: int = 0
    """Offsets that retention had removed before they were read."""


class CursorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cursor as it is stored in `penstock.cursors`."""

    next: int
    resume: int | None = None
    outstanding: tuple[Outstanding, ...] = ()
    """Those that have no record of their own."""
    behind: int = 0
    seen: int = -1
    counts: Counts | None = None
    """On Replays only."""
    fence: int = 0
    gap: int | None = None
    waits: int = -1
    waits_at: int = 0


_CURSOR_DECODER, _DELIVERY_DECODER = msgspec.json.Decoder(CursorRecord), msgspec.json.Decoder(Outstanding)


class Cursor:
    """The cursor of one route in one partition."""

    __slots__ = (
        "_changed",
        "_flushes",
        "_moved",
        "_written_behind",
        "_young",
        "behind",
        "counts",
        "fence",
        "gap",
        "next",
        "outstanding",
        "resume",
        "route",
        "seen",
        "waits",
        "waits_at",
    )

    def __init__(self, route: str, next: int, resume: int | None, changed: set[Cursor]) -> None:
        self.route = route
        self.next = next
        self.resume = resume
        """Where in `penstock.matched` to read on; None while the route is attached to the tail."""
        self.outstanding: dict[int, Outstanding] = {}
        """In the order of their origins."""
        self._young: dict[int, int] = {}
        """Origins of those without a record of their own, and the number of the flush before which each was taken."""
        self._moved: set[int] = set()
        """Those among them that are no longer at their first attempt."""
        self._flushes = 0
        """Flushes that have written this cursor."""
        self._changed = changed
        self.behind = 0
        """Events for this route that the tail has passed and the route has still to read."""
        self.seen = -1
        """The newest origin among them; a record with an older one is a repeat."""
        self.fence = 0
        """While the route is detached: the generation below which records are ignored at its position."""
        self.gap: int | None = None
        """The next origin to read in `penstock.events`, while the route reads there; otherwise None."""
        self.waits, self.waits_at = -1, 0
        """While the route is detached: the origin and time (in Unix milliseconds) of the first event that had to wait.
        It has had all of its events with older origins."""
        self._written_behind = 0
        self.counts: Counts | None = None
        """On Replays only."""

    @property
    def attached(self) -> bool:
        """Whether the tail of the partition feeds this route."""
        return self.resume is None

    @property
    def waiting(self) -> tuple[int, int] | None:
        """The oldest event that the route has not finished, at the earliest: its origin, and its time in Unix
        milliseconds, which is 0 where it is not known; None where there is none."""
        found = [(one.origin, one.at) for one in islice(self.outstanding.values(), 1)]
        if self.resume is not None:
            found.append((max(self.next, self.waits) if self.gap is None else self.gap, self.waits_at))
        return min(found, default=None)

    def touch(self) -> None:
        """Notes that the cursor differs from what is stored."""
        self._changed.add(self)

    def take(self, origin: int, matched: int, at: int, key: int, *, free: bool) -> Outstanding | Taken:
        """Takes a record unless it was taken before, or the route has no capacity."""
        if origin < self.next:
            return Taken.REPEATED
        if not free:
            return Taken.FULL
        delivery = Outstanding(origin, matched, at, key)
        self.outstanding[origin] = delivery
        self._young[origin] = self._flushes
        self.next = origin + 1
        self.touch()
        return delivery

    def has_record(self, origin: int) -> bool:
        """Whether the delivery has a record of its own, which must change with it."""
        return origin not in self._young

    def move(self, origin: int) -> None:
        """The delivery continues: with another attempt, in another stage, at another time."""
        if origin in self._young:
            self._moved.add(origin)
            self.touch()

    def finish(self, origin: int) -> None:
        """The delivery has ended, whatever its outcome."""
        self.outstanding.pop(origin, None)
        if self._young.pop(origin, None) is not None:
            self.touch()

    def settle(self) -> list[Outstanding]:
        """Before each flush that writes the cursor: deliveries that get a record of their own from now on.

        Goes through those only: under full load thousands of others wait, and there is a flush every few milliseconds.
        """
        settled = [origin for origin in self._moved if origin in self._young]
        for origin, taken in self._young.items():  # in the order in which they were taken
            if self._flushes - taken < YOUNG_FLUSHES:
                break
            if origin not in self._moved:
                settled.append(origin)
        for origin in settled:
            del self._young[origin]
        self._moved.clear()
        self._flushes += 1
        return [self.outstanding[origin] for origin in settled]

    def restore(self, young: Iterable[Outstanding], settled: Iterable[Outstanding]) -> None:
        """Deliveries as they were stored. Of one that is in both, its own record is the newer one."""
        found = {delivery.origin: delivery for delivery in young}
        self._young = dict.fromkeys(sorted(found), 0)
        self._moved = {origin for origin, delivery in found.items() if delivery.attempt or delivery.stage}
        for delivery in settled:
            if delivery.origin < self.next:
                found[delivery.origin] = delivery
                self._young.pop(delivery.origin, None)
        self.outstanding = {origin: found[origin] for origin in sorted(found)}

    def record(self) -> CursorRecord:
        """The record of the cursor itself."""
        young = tuple(self.outstanding[origin] for origin in self._young)
        self._written_behind = self.behind
        if self.resume is None:
            return CursorRecord(self.next, None, young, counts=self.counts)
        return CursorRecord(
            self.next,
            self.resume,
            young,
            self.behind,
            self.seen,
            self.counts,
            self.fence,
            self.gap,
            self.waits,
            self.waits_at,
        )

    def pass_over(self, origin: int) -> None:
        """A Replay has read everything before this origin."""
        if origin > self.next:
            self.next = origin
            self.touch()

    def detach(self, resume: int, origin: int, fence: int, at: int = 0) -> None:
        """The tail continues without this route, which will read from `resume`, where `origin` has been waiting for it
        since `at` and this fence is in force."""
        self.resume, self.fence, self.gap = resume, fence, None
        self.behind, self.seen = 1, origin
        self.waits, self.waits_at = origin, at
        self.touch()

    def wait(self, origin: int, at: int) -> None:
        """The detached route has no capacity for an event."""
        self.waits, self.waits_at = origin, at
        self.touch()

    def open_gap(self, begin: int, resume: int) -> None:
        """The records that the route would read next were removed from `penstock.matched`, up to `resume`: it reads the
        events from `begin` on."""
        if self.gap is None or begin < self.gap:
            self.gap, self.resume = begin, resume
            self.touch()

    def look_past(self, origin: int) -> None:
        """A route that reads the events has read everything before this origin."""
        if self.gap is not None and origin > self.gap:
            self.gap = origin
            self.touch()

    def close_gap(self, resume: int, fence: int) -> None:
        """It continues to read `penstock.matched` here, where this fence is in force. Everything that it has read comes
        before this offset, or again after it."""
        self.next = max(self.next, self.gap or 0)
        self.resume, self.fence, self.gap = resume, fence, None
        self.touch()

    def pass_fence(self, generation: int) -> None:
        """The detached route has read past a fence of this generation. It is stored with the position."""
        self.fence = max(self.fence, generation)

    def pass_by(self, origin: int) -> None:
        """The tail has read an event for this detached route."""
        if origin > self.seen:
            self.seen = origin
            self.behind += 1

    def caught_up_one(self) -> None:
        """The detached route has taken an event."""
        self.behind = max(0, self.behind - 1)

    def touch_if_miscounted(self) -> None:
        """To be called now and then: the lag of the route is to be stored, but not with every event."""
        if self.behind != self._written_behind:
            self.touch()

    def attach(self) -> None:
        """The route has reached the tail."""
        self.next = max(self.next, self.gap or 0)
        self.resume, self.gap, self.behind = None, None, 0
        self.waits, self.waits_at = -1, 0
        self.touch()

    def proceed(self, resume: int) -> None:
        """A detached route has read up to `resume`."""
        if self.resume is not None and self.gap is None and resume > self.resume:
            self.resume = resume
            self.touch()


def encode(cursor: Cursor) -> bytes:
    """The cursor's value in the topic."""
    return msgspec.json.encode(cursor.record())


def restore(route: str, value: bytes, settled: Iterable[Outstanding], changed: set[Cursor]) -> Cursor:
    """The cursor as it was stored, with the deliveries that have records of their own."""
    record = _CURSOR_DECODER.decode(value)
    cursor = Cursor(route, record.next, record.resume, changed)
    cursor.restore(record.outstanding, settled)
    cursor.counts = record.counts
    if record.resume is not None:
        cursor.behind, cursor.seen, cursor.fence = record.behind, record.seen, record.fence
        cursor.gap, cursor.waits, cursor.waits_at = record.gap, record.waits, record.waits_at
    return cursor


def from_the_beginning(route: str, changed: set[Cursor]) -> Cursor:
    """The cursor of a route that reads everything that is retained, whatever it took before."""
    cursor = Cursor(route, 0, 0, changed)
    cursor.touch()
    return cursor


def encode_delivery(delivery: Outstanding) -> bytes:
    """The value of a delivery's own record."""
    return msgspec.json.encode(delivery)


def decode_delivery(value: bytes, origin: int) -> Outstanding:
    """The delivery that was stored for this origin. Raises ValueError, or what msgspec raises."""
    delivery = _DELIVERY_DECODER.decode(value)
    if delivery.origin != origin:
        raise ValueError(f"it is a delivery of {delivery.origin}, not of {origin}")
    return delivery
