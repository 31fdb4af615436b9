"""The cursors of one partition and how records move them: at the tail, and behind it for routes that could not keep up.

The tail never waits for a route: one without room is detached and reads on from its own position, chunk by chunk, until
it has reached the tail again. Detached routes take turns, so that a long backlog does not starve a short one; all that
stand within the same chunk are served along.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding, Taken
from penstock.dispatcher.cursors.fences import Fence, Fences
from penstock.dispatcher.matched.record import Matched

Routes = Mapping[str, Route]
HasRoom = Callable[[Cursor], bool]
"""Whether a route can take one more delivery, or a chunk of them."""


class TailPosition(msgspec.Struct, frozen=True):
    """How far a partition was read, and which record came last: a log that was cut off has another one there."""

    next: int
    """The next offset of `penstock.matched` to read."""
    origin: int = -1
    at: int = 0
    """Origin and time of the record before it."""
    fences: tuple[Fence, ...] | msgspec.UnsetType = msgspec.UNSET
    """Those that were passed, see `fences.py`."""


class NewDelivery(msgspec.Struct, frozen=True):
    """A delivery that begins."""

    cursor: Cursor
    delivery: Outstanding
    record: Matched


@dataclass(frozen=True, slots=True)
class LostOrigins:
    """Origins that were gone before the route got them."""

    route: str
    first: int
    last: int


class PartitionCursors:
    """Everything a task knows of one partition of `penstock.matched`."""

    def __init__(self, partition: int, tail: int | None = None) -> None:
        self.partition = partition
        self.tail = tail
        """The next offset of `penstock.matched` to read; None: from the beginning."""
        self._last_origin, self._last_at = -1, 0
        self.newest_origin = -1
        self.fences = Fences()
        self.cursors: dict[str, Cursor] = {}
        self.changed: set[Cursor] = set()
        """Cursors that differ from what is written down."""
        self._turns: OrderedDict[str, None] = OrderedDict()

    def cursor(self, route: str) -> Cursor:
        """The route's cursor; a new route begins at 0, for the router already left out what came before it."""
        cursor = self.cursors.get(route)
        if cursor is None:
            cursor = self.cursors[route] = Cursor(route, 0, None, self.changed)
        return cursor

    def restore(self, tail: TailPosition | None, cursors: Iterable[Cursor]) -> None:
        """Tail and cursors as they were found in the topic."""
        if tail is not None:
            self.tail, self._last_origin, self._last_at = tail.next, tail.origin, tail.at
            self.fences = Fences(tail.fences or ())
        for cursor in cursors:
            self.cursors[cursor.route] = cursor
            if cursor.resume is None:
                continue
            if self.tail is None or cursor.resume > self.tail:
                cursor.attach()  # the topic lost its end between both records: the tail is the one that is sure
            else:
                self._turns[cursor.route] = None

    @property
    def position(self) -> TailPosition | None:
        """How far the partition was read; None before anything was."""
        if self.tail is None:
            return None
        return TailPosition(self.tail, self._last_origin, self._last_at, self.fences.known or msgspec.UNSET)

    def was_last(self, record: Matched) -> bool:
        """Whether this is the record that was read last. One that was written again has another time, if not origin."""
        return (record.offset + 1, record.origin, record.at) == (self.tail, self._last_origin, self._last_at)

    def start_over(self) -> None:
        """The log is another one: all routes read it from its beginning. What they have taken, their origins tell."""
        self.tail, self.fences = None, Fences()
        for cursor in self.cursors.values():
            if not cursor.attached:
                self._attach(cursor)

    def forget(self, route: str) -> None:
        """The route is gone."""
        cursor = self.cursors.pop(route, None)
        if cursor is not None:
            self.changed.discard(cursor)
        self._turns.pop(route, None)

    def take(self, record: Matched, routes: Routes, gone: Iterable[str], has_room: HasRoom) -> Iterator[NewDelivery]:
        """Takes a record at the tail. A route that is not known yet is detached: its snapshot is still to come."""
        if not record.routes:
            self.fences.see(record)
        self.tail = record.offset + 1
        self._last_origin, self._last_at = record.origin, record.at
        self.newest_origin = max(self.newest_origin, record.origin)
        for uid in record.routes:
            if uid in gone:
                continue
            cursor = self.cursor(uid)
            if not cursor.attached:
                cursor.pass_by(record.origin)
                continue
            start = self._give(cursor, record, routes.get(uid), has_room)
            if start is Taken.FULL:
                cursor.detach(record.offset, record.origin)
                self._turns[uid] = None
            elif isinstance(start, NewDelivery):
                yield start

    @staticmethod
    def _give(cursor: Cursor, record: Matched, route: Route | None, has_room: HasRoom) -> NewDelivery | Taken:
        free = route is not None and not route.paused and has_room(cursor)
        key = record.ordering_key() if free and route is not None and route.ordering == "key" else 0
        taken = cursor.take(record.origin, record.offset, record.at, key, room=free)
        return NewDelivery(cursor, taken, record) if isinstance(taken, Outstanding) else taken

    def next_chunk(self, routes: Routes, has_room_for_chunk: HasRoom) -> int | None:
        """Where the catch-up reader reads next: at the position of the detached route whose turn it is."""
        for uid in list(self._turns):
            cursor = self.cursors[uid]
            route = routes.get(uid)
            if route is None or route.paused or cursor.resume is None or not has_room_for_chunk(cursor):
                continue
            if self.tail is None or cursor.resume >= self.tail:
                self._attach(cursor)
                continue
            self._turns.move_to_end(uid)
            return cursor.resume
        return None

    def catch_up(
        self,
        begin: int,
        end: int,
        records: Sequence[Matched],
        routes: Routes,
        *,
        has_room: HasRoom,
        has_room_for_chunk: HasRoom,
    ) -> Iterator[NewDelivery]:
        """Serves the records from `begin` up to `end` (exclusive) to every detached route that stands among them."""
        end = min(end, self.tail or 0)
        served: dict[str, Cursor] = {}
        for uid in self._turns:
            cursor, route = self.cursors[uid], routes.get(uid)
            within = cursor.resume is not None and begin <= cursor.resume < end
            if within and route is not None and not route.paused and has_room_for_chunk(cursor):
                served[uid] = cursor
        for record in records:
            if record.offset >= end:
                break
            if self.fences.shut_out(record):
                continue
            for uid in record.routes:
                behind = served.get(uid)
                if behind is None or behind.resume is None or behind.resume > record.offset:
                    continue
                start = self._give(behind, record, routes.get(uid), has_room)
                if start is Taken.FULL:
                    behind.proceed(record.offset)
                    del served[uid]
                    continue
                behind.proceed(record.offset + 1)
                if isinstance(start, NewDelivery):
                    behind.caught_up_one()
                    yield start
        for cursor in served.values():
            cursor.proceed(end)
            if cursor.resume is not None and self.tail is not None and cursor.resume >= self.tail:
                self._attach(cursor)

    def _attach(self, cursor: Cursor) -> None:
        cursor.attach()
        self._turns.pop(cursor.route, None)

    def touch_miscounted(self) -> None:
        """Now and then: detached routes that are further behind than is written."""
        for uid in self._turns:
            self.cursors[uid].touch_if_miscounted()

    @property
    def detached(self) -> bool:
        """Whether any route is behind the tail on its own."""
        return bool(self._turns)

    def skip_lost(self, retained: int, origin: int, routes: Routes) -> list[LostOrigins]:
        """Retention has removed everything before `retained`, with this origin: moves routes that stood there."""
        lost = []
        for uid, cursor in self.cursors.items():
            stands = self.tail if cursor.attached else cursor.resume
            if uid not in routes or routes[uid].replay is not None or stands is None or stands >= retained:
                continue
            cursor.proceed(retained)
            start = routes[uid].start
            begin = max(cursor.next, start[self.partition] if self.partition < len(start) else 0)
            if begin < origin:
                lost.append(LostOrigins(uid, begin, origin - 1))
        return lost
