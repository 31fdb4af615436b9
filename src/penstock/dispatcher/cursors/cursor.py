"""Where one route stands in one partition: what it has taken, and what of it is not finished.

`next` is the first origin (offset in `penstock.events`) not yet taken; a record below it was taken before, by an
overlapping generation or a router that repeats itself, and is dropped. Origins in `penstock.matched` may step back when
generation N+1 starts while N still writes. No route loses an event by that: N writes a partition in order and N+1
starts no later than right after N's last record, so an old route saw 103 from N before it saw 105; a new route is only
in what N+1 writes, again in order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class Stage(enum.IntEnum):
    """Whose turn it is to accept the event."""

    SUBSCRIBER = 0
    REPLY = 1
    DEAD_LETTER = 2


STAGE_NAMES = {Stage.SUBSCRIBER: "subscriber", Stage.REPLY: "reply", Stage.DEAD_LETTER: "deadletter"}
"""As attempt records, spans and metrics spell them."""


class Outstanding(msgspec.Struct, array_like=True):
    """One event on its way to one route. Kept as an array: thousands of them are written every flush."""

    origin: int
    matched: int
    """Offset in `penstock.matched`, to read the event again."""
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


class CursorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cursor as it is kept in `penstock.cursors`."""

    next: int
    resume: int | None = None
    outstanding: tuple[Outstanding, ...] = ()


class Cursor:
    """The cursor of one route in one partition."""

    __slots__ = ("_changed", "next", "outstanding", "resume", "route")

    def __init__(self, route: str, next: int, resume: int | None, changed: set[Cursor]) -> None:
        self.route = route
        self.next = next
        self.resume = resume
        """Where in `penstock.matched` to read on; None while the route is attached to the tail."""
        self.outstanding: dict[int, Outstanding] = {}
        """In the order of their origins."""
        self._changed = changed

    @property
    def attached(self) -> bool:
        """Whether the tail of the partition feeds this route."""
        return self.resume is None

    def touch(self) -> None:
        """Notes that the cursor differs from what is written down."""
        self._changed.add(self)

    def take(self, origin: int, matched: int, at: int, key: int, *, room: bool) -> Outstanding | Taken:
        """Takes a record unless it was taken before or there is no room."""
        if origin < self.next:
            return Taken.REPEATED
        if not room:
            return Taken.FULL
        delivery = Outstanding(origin, matched, at, key)
        self.outstanding[origin] = delivery
        self.next = origin + 1
        self.touch()
        return delivery

    def finish(self, origin: int) -> None:
        """The delivery has ended, one way or another."""
        if self.outstanding.pop(origin, None) is not None:
            self.touch()

    def detach(self, resume: int) -> None:
        """The tail goes on without this route, which will read on from `resume`."""
        self.resume = resume
        self.touch()

    def attach(self) -> None:
        """The route has reached the tail."""
        self.resume = None
        self.touch()

    def proceed(self, resume: int) -> None:
        """A detached route has read up to `resume`."""
        if self.resume is not None and resume > self.resume:
            self.resume = resume
            self.touch()


def encode(cursor: Cursor) -> bytes:
    """The cursor's value in the topic."""
    return msgspec.json.encode(CursorRecord(cursor.next, cursor.resume, tuple(cursor.outstanding.values())))


def restore(route: str, value: bytes, changed: set[Cursor]) -> Cursor:
    """The cursor as it was written, its deliveries in the order of their origins."""
    record = msgspec.json.decode(value, type=CursorRecord)
    cursor = Cursor(route, record.next, record.resume, changed)
    cursor.outstanding = {delivery.origin: delivery for delivery in in_order(record.outstanding)}
    return cursor


def in_order(deliveries: Iterable[Outstanding]) -> list[Outstanding]:
    """Deliveries by origin: the order in which their events were accepted."""
    return sorted(deliveries, key=lambda delivery: delivery.origin)
