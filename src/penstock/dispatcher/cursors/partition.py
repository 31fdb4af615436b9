"""The cursors of one partition and how records move them: at the tail, and behind it for routes that could not keep up.

The tail never waits for a route: one without capacity is detached and reads from its own position, chunk by chunk,
until it has reached the tail again. Detached routes take turns, so that a long backlog does not starve a short one; all
whose positions are within the same chunk are served together.

Retention may remove records of `penstock.matched` before a detached route, or the tail itself, has read them. Then the
routes concerned read the events, by their own filters, until they are past all events of the lost records:

1. A *bound* holds at an offset of the log if no record before it has that origin or a later one. Each generation that
   counts writes a partition in order and starts no later than right after what its predecessor had written. So a route
   that has had every origin below the bound misses nothing if it continues at that offset and drops what is below the
   bound; also where generations overlap, and whichever of them knows the route.
2. At the tail the bound is known while everything before was read: it is the newest origin plus one. So it is known at
   offsets that the tail has passed, some of which are remembered with the fence in force.
3. Where the tail itself missed records, the bound is the end of the events, read at any time afterwards: a record is
   made from an event that existed before it.
4. A detached route has had all its events that are older than the first that had to wait; an attached one all that are
   older than its `next`. From there on it reads the events.
5. Where the events are gone as well, the log may still reach further back than they do. From its first record on it has
   all events except those that a generation wrote before and another one still has to repeat. So it is read ahead to
   see where each generation begins: from the newest of these origins on, nothing is missing.
6. Where the tail itself missed records, a fence may have been among them, so a record behind them may be of a
   generation that no longer counts. Records that the tail reads then move no route, and no bound is known, until the
   point from which routing resumes has been read, at any time afterwards. Let its generation be P. No fence among the
   missed records is of a later generation, because a point is recorded before its fence is written; so from there on
   records of generations below P are ignored. Events before P's start are older than its point, and so below the bound,
   which is read after the point: routes get them from the events. P, or its successor, writes all others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from penstock.contract import event_log, records
from penstock.contract.event_log import KnownEvent
from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import NOT_MATCHED, Cursor, Outstanding, Taken
from penstock.dispatcher.cursors.fences import (
    Fence,
    Fences,
    fence_of,
    follows_of,
    generation_of,
    is_below,
    newest_before,
)
from penstock.dispatcher.matched_record import Matched

Routes = Mapping[str, Route]
HasCapacity = Callable[[Cursor], bool]
"""Whether a route can take one more delivery, or a chunk of them."""


class Matcher(Protocol):
    """Knows which routes an event matches."""

    def __contains__(self, route: str, /) -> bool:
        """Whether it includes this route."""

    def wanting(self, record: Matched) -> Iterable[str]:
        """The routes that an event matches."""


RECORDS_PER_BOUND, BOUNDS = 1000, 1000
"""How many records are between two of the bounds that the tail remembers, and how many bounds that are."""


class Logs(msgspec.Struct, frozen=True, array_like=True):
    """Kafka's ids of `penstock.events` and `penstock.matched`."""

    events: str
    matched: str


class TailPosition(msgspec.Struct, frozen=True):
    """How far a partition was read, and its last record: a log that has lost its end has another one there."""

    next: int
    """The next offset of `penstock.matched` to read."""
    origin: int = -1
    at: int = 0
    """Origin and time of the record before it."""
    fences: tuple[Fence, ...] | msgspec.UnsetType = msgspec.UNSET
    """The newest that was passed, see `fences.py`; former versions wrote the last 32."""
    logs: Logs | msgspec.UnsetType = msgspec.UNSET
    """The topics that the offsets are of."""
    known: KnownEvent | msgspec.UnsetType = msgspec.UNSET
    """The newest event that was read, by its origin."""
    newest: int | msgspec.UnsetType = msgspec.UNSET
    """The newest origin of all records before `next`, where that is known."""
    unfenced: int | msgspec.UnsetType = msgspec.UNSET
    """The tail has missed the records before this offset, and the fence in force since then is still unknown."""


class NewDelivery(msgspec.Struct, frozen=True):
    """A delivery that begins."""

    cursor: Cursor
    delivery: Outstanding
    record: Matched


class Edge(NamedTuple):
    """Where the log begins."""

    offset: int
    whole_from: int
    """From this origin on no event is missing after that offset."""
    fence: int
    """The generation below which records are ignored there, as far as that is known."""


class EdgeSearch:
    """Finds the edge of a log by its first records.

    Which fence is in force at the edge is shown by what the tail knows of the first offset after it of which it knows
    that, or by the first fence after it, which names the generation that counted before.
    """

    def __init__(self, newest: Fence | None, known: KnownBound | None = None) -> None:
        self._newest, self._known = newest, known
        self._offset, self._fence, self._at_edge = 0, 0, -1
        self._has_passed = False
        """Whether the fence in force at the edge has been found."""
        self._firsts: dict[int | None, int] = {}

    def add(self, record: Matched) -> None:
        """The next record of the log."""
        if self._at_edge < 0:
            self._offset = record.offset
            self._at_edge = newest_before(record.offset, () if self._newest is None else (self._newest,))
        fence = fence_of(record)
        if not self._has_passed and (fence or (self._known is not None and record.offset >= self._known.offset)):
            before = follows_of(record) if fence else self._known.fence if self._known is not None else 0
            self._has_passed, self._at_edge = True, max(self._at_edge, before)
            self._firsts = {one: first for one, first in self._firsts.items() if one is None or one >= self._at_edge}
        self._fence = max(self._fence, self._at_edge, fence)
        if record.origin >= 0 and not fence and not is_below(self._fence, record):
            self._firsts.setdefault(generation_of(record), record.origin)

    @property
    def found(self) -> Edge | None:
        """The edge; None where there was no record."""
        return Edge(self._offset, max(self._firsts.values()), self._at_edge) if self._firsts else None


class KnownBound(NamedTuple):
    """The offset of `penstock.matched` at which a route may continue that has had every origin below the bound."""

    offset: int
    bound: int
    fence: int
    """The generation below which records are ignored there."""


@dataclass(frozen=True, slots=True)
class LostOrigins:
    """Origins that were removed before the route got them."""

    route: str
    first: int
    last: int


class PartitionCursors:
    """The state of one partition of `penstock.matched` in a task."""

    def __init__(self, partition: int, tail: int | None = None) -> None:
        self.partition = partition
        self.tail = tail
        """The next offset of `penstock.matched` to read; None: from the beginning."""
        self._last_origin, self._last_at = -1, 0
        self.newest_origin = -1
        self._is_bound = True
        """Whether no record before the tail has a newer origin."""
        self._bounds: deque[KnownBound] = deque(maxlen=BOUNDS)
        self._before: tuple[int, int, Fence | None] | None = None
        """How far the log had been read, the time of the last record, and the newest fence, before it was begun
        again."""
        self._emptied = -1
        self.retained = 0
        """Retention has removed the log before this offset."""
        self.jumps = 0
        """How often the tail has continued elsewhere than after its last record."""
        self.fences = Fences()
        self.unfenced: int | None = None
        """From this offset on it is unknown which fence is in force, because the tail has missed the records before;
        otherwise None. All routes read the events."""
        self.logs: Logs | None = None
        self._known: KnownEvent | None = None
        """The newest event before this task."""
        self._newest_event: tuple[int, Mapping[str, bytes | None]] = (-1, {})
        """Origin and headers of the newest event, or marker, that this task has read."""
        self.cursors: dict[str, Cursor] = {}
        self.changed: set[Cursor] = set()
        """Cursors that differ from what is stored."""
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
            self.logs, self._known = tail.logs or None, tail.known or None
            self._is_bound = tail.newest is not msgspec.UNSET
            self.newest_origin = tail.origin if tail.newest is msgspec.UNSET else tail.newest
            self.fences = Fences(max(tail.fences or (), key=lambda fence: fence.generation, default=None))
            self.unfenced = None if tail.unfenced is msgspec.UNSET else tail.unfenced
        for cursor in cursors:
            self.cursors[cursor.route] = cursor
            if cursor.resume is None:
                continue
            if cursor.gap is not None:
                self._turns[cursor.route] = None
            elif self.tail is None or cursor.resume > self.tail:
                cursor.attach()  # the topic lost its end between both records: the tail is reliable
            else:
                passed = () if tail is None else tail.fences or ()
                cursor.pass_fence(newest_before(cursor.resume, passed))
                self._turns[cursor.route] = None

    @property
    def position(self) -> TailPosition | None:
        """How far the partition was read; None before anything was."""
        if self.tail is None:
            return None
        fences = msgspec.UNSET if self.fences.newest is None else (self.fences.newest,)
        logs, known = self.logs or msgspec.UNSET, self.known or msgspec.UNSET
        newest = self.newest_origin if self._is_bound and self.newest_origin >= 0 else msgspec.UNSET
        unfenced = msgspec.UNSET if self.unfenced is None else self.unfenced
        return TailPosition(self.tail, self._last_origin, self._last_at, fences, logs, known, newest, unfenced)

    @property
    def known(self) -> KnownEvent | None:
        """The newest event that was read; None where there is none."""
        origin, fields = self._newest_event
        if self._known is not None and self._known.offset >= origin:
            return self._known
        return event_log.known(origin, fields.items())

    def was_last(self, record: Matched) -> bool:
        """Whether this is the record that was read last. One that was written again has another time, if not origin."""
        return (record.offset + 1, record.origin, record.at) == (self.tail, self._last_origin, self._last_at)

    def check_logs(self, logs: Logs, end: int) -> bool:
        """Whether the matched events are in the same topic as when the cursors were written. The events have to be.

        Their partition ends at `end`. Raises AnotherLog.
        """
        before = self.logs
        if before is not None:
            event_log.check_id(before.events, logs.events)
        for cursor in self.cursors.values():
            if cursor.counts is None:  # the end of a Replay was set when it was created
                event_log.check_end(self.partition, cursor.next, end, f"the cursor of the route {cursor.route}")
        self.logs = logs
        self.events_ended(end)
        return before is None or before.matched == logs.matched

    def start_over(self) -> None:
        """The log is another one: all routes read it from its beginning; by its origin they drop what they have taken.

        Routes whose positions are before its first record read events: `begin_again` decides that with that record.
        """
        if self.tail is not None:
            self._before = self.tail, self._last_at, self.fences.newest
        self.jumps += 1
        self.tail, self.fences, self._is_bound, self.retained, self.unfenced = None, Fences(), False, 0, None
        self._bounds.clear()

    def begin_again(self, first: int) -> None:
        """The tail begins with the first record of the log: detached routes continue with it."""
        for uid in list(self._turns):
            cursor = self.cursors[uid]
            if cursor.gap is None and cursor.resume is not None:
                if cursor.resume < first:
                    self._open_gap(cursor, first)
                else:
                    self._attach(cursor)

    def lacks(self, record: Matched) -> bool:
        """Whether records before this one, which the tail reads next, were removed without having been read.

        After reading began again, records that are older than the last one read before that have been read. That is not
        enough where the newest fence was not among them: then an older one was, which is no longer known. Otherwise
        that fence is in force again.
        """
        if self.tail is not None:
            return record.offset > self.tail
        if self._before is None or record.offset == 0:
            return record.offset > 0
        tail, at, fence = self._before
        was_read = record.offset < tail and record.at <= at and (fence is None or fence.offset < record.offset)
        if was_read and fence is not None:
            self.fences.raise_to(fence)
        return not was_read

    def jump(self, first: int, routes: Iterable[str]) -> None:
        """The tail continues here, after records that were removed without having been read. They may have been for any
        route, including one that has no cursor yet."""
        self.jumps += 1
        self.retained = max(self.retained, first)
        self.unfenced, self._is_bound = first, False
        self._bounds.clear()
        for uid in {*self.cursors, *routes}:
            cursor = self.cursor(uid)
            if cursor.counts is None:
                self._open_gap(cursor, first)

    def found_fence(self, generation: int) -> None:
        """Routing resumes from this generation, as was read after the tail had missed records, and after it had read
        all that the log held behind them."""
        if self.unfenced is not None:
            newest = self.fences.newest
            is_older = newest is not None and newest.offset >= self.unfenced
            self.fences.raise_to(Fence((self.tail or 0) - 1 if is_older else self.unfenced - 1, generation))
            self.unfenced = None

    def emptied(self, first: int, routes: Iterable[str]) -> None:
        """The log is empty and begins at `first`. If records were removed that the tail has not read, the next record
        may not arrive for long, so that is handled now."""
        if (self.tail or 0) < first and first != self._emptied:
            self._emptied = first
            self.jump(first, routes)

    def adopt(self, route: str) -> None:
        """A route that was not known until now may have been in records that the tail has missed."""
        if self.jumps:
            cursor = self.cursor(route)
            cursor.open_gap(cursor.next, self.tail or 0)
            self._turns[route] = None

    def events_ended(self, end: int) -> None:
        """`penstock.events` ended there at some time after the tail reached its position, and after the fence in force
        was known there."""
        if not self._is_bound and self.unfenced is None:
            self.newest_origin, self._is_bound = max(self.newest_origin, end - 1), True

    def removed_before(self, retained: int) -> None:
        """Retention has removed all records before this offset: routes at these offsets read the events."""
        self.retained = max(self.retained, retained)
        while self._bounds and self._bounds[0].offset < retained:
            self._bounds.popleft()
        for uid in self._turns:
            cursor = self.cursors[uid]
            if cursor.gap is None and cursor.resume is not None and cursor.resume < retained:
                self._open_gap(cursor, retained)

    def _open_gap(self, cursor: Cursor, resume: int) -> None:
        if cursor.gap is None:
            cursor.open_gap(max(cursor.next, cursor.waits), resume)
            self._turns[cursor.route] = None

    def forget(self, route: str) -> None:
        """The route is gone."""
        cursor = self.cursors.pop(route, None)
        if cursor is not None:
            self.changed.discard(cursor)
        self._turns.pop(route, None)

    def take(
        self, record: Matched, routes: Routes, gone: Iterable[str], has_capacity: HasCapacity
    ) -> Iterator[NewDelivery]:
        """Takes a record at the tail. A route that is not known yet is detached: its snapshot is still to come."""
        if self.tail is None:
            self.begin_again(record.offset)
        if not record.routes:
            self.fences.see(record)
        self.tail = record.offset + 1
        self._last_origin, self._last_at = record.origin, record.at
        self.newest_origin = max(self.newest_origin, record.origin)
        if record.origin > self._newest_event[0] and records.FENCE not in record.fields:
            self._newest_event = record.origin, record.fields
        if self._is_bound and self.tail % RECORDS_PER_BOUND == 0:
            self._bounds.append(KnownBound(self.tail, self.newest_origin + 1, self.fences.in_force))
        for uid in record.routes:
            if uid in gone:
                continue
            cursor = self.cursor(uid)
            if not cursor.attached:
                cursor.pass_by(record.origin)
                continue
            start = self._give(cursor, record, routes.get(uid), has_capacity)
            if start is Taken.FULL:
                cursor.detach(record.offset, record.origin, self.fences.in_force, record.at)
                self._turns[uid] = None
            elif isinstance(start, NewDelivery):
                yield start

    @staticmethod
    def _give(
        cursor: Cursor, record: Matched, route: Route | None, has_capacity: HasCapacity, matched: int | None = None
    ) -> NewDelivery | Taken:
        free = route is not None and not route.paused and has_capacity(cursor)
        key = record.ordering_key() if free and route is not None and route.ordering == "key" else 0
        offset = record.offset if matched is None else matched
        taken = cursor.take(record.origin, offset, record.at, key, free=free)
        return NewDelivery(cursor, taken, record) if isinstance(taken, Outstanding) else taken

    def next_chunk(self, routes: Routes, has_capacity_for_chunk: HasCapacity) -> int | None:
        """The offset to read next: the position of the detached route whose turn it is; None where there is none."""
        for uid in list(self._turns) if self.tail is not None else ():
            cursor = self.cursors[uid]
            route = routes.get(uid)
            if cursor.gap is not None or route is None or route.paused or cursor.resume is None:
                continue
            if not has_capacity_for_chunk(cursor):
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
        has_capacity: HasCapacity,
        has_capacity_for_chunk: HasCapacity,
    ) -> Iterator[NewDelivery]:
        """Serves the records from `begin` up to `end` (exclusive) to every detached route with a position among
        them."""
        end = min(end, self.tail or 0)
        served: dict[str, Cursor] = {}
        for uid in self._turns:
            cursor, route = self.cursors[uid], routes.get(uid)
            within = cursor.gap is None and cursor.resume is not None and begin <= cursor.resume < end
            if within and route is not None and not route.paused and has_capacity_for_chunk(cursor):
                served[uid] = cursor
        newest = max((cursor.fence for cursor in served.values()), default=0)
        for record in records:
            if record.offset >= end:
                break
            if not record.routes:
                newest = max(newest, _pass_fence(served.values(), record))
            elif newest and is_below(newest, record) and _is_shut_out(served.values(), record):
                continue
            for uid in record.routes:
                behind = served.get(uid)
                if behind is None or behind.resume is None or behind.resume > record.offset:
                    continue
                start = self._give(behind, record, routes.get(uid), has_capacity)
                if start is Taken.FULL:
                    behind.proceed(record.offset)
                    behind.wait(record.origin, record.at)
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
        """To be called now and then: notes detached routes whose stored lag is out of date."""
        for uid in self._turns:
            self.cursors[uid].touch_if_miscounted()

    @property
    def detached(self) -> bool:
        """Whether any route is detached."""
        return bool(self._turns)

    # --- removed records -----------------------------------------------------------------------------------------

    def next_gap(self, routes: Routes, has_capacity_for_chunk: HasCapacity) -> tuple[int, int | None] | None:
        """The first event to read for the route whose turn it is, and the bound at the tail, where that is known.

        None where no route reads events: those that are past a known bound continue at its offset.
        """
        for uid in list(self._turns):
            cursor, route = self.cursors[uid], routes.get(uid)
            if cursor.gap is None or route is None or route.paused:
                continue
            if route.replay is not None:  # its record could not be read when the gap was opened
                self._attach(cursor)
                continue
            if not has_capacity_for_chunk(cursor):
                continue
            cursor.look_past(self._start(route))
            if self._leave_gap(cursor):
                continue
            self._turns.move_to_end(uid)
            return cursor.gap, self.newest_origin + 1 if self._is_bound else None
        return None

    def _start(self, route: Route) -> int:
        return route.start[self.partition] if self.partition < len(route.start) else 0

    def _leave_gap(self, cursor: Cursor) -> bool:
        """Whether the route has read enough events to continue with matched ones."""
        if cursor.gap is None or not self._is_bound:
            return False
        if cursor.gap > self.newest_origin:
            self._attach(cursor)
            return True
        number = bisect_right(self._bounds, cursor.gap, key=lambda known: known.bound)
        if not number:
            return False
        known = self._bounds[number - 1]
        cursor.close_gap(known.offset, known.fence)
        return True

    @property
    def first_bound(self) -> KnownBound | None:
        """The first that is known where the log still has its records."""
        return self._bounds[0] if self._bounds else None

    def in_gap(self) -> list[str]:
        """The routes that read events."""
        return [uid for uid in self._turns if self.cursors[uid].gap is not None]

    def lose(self, begin: int, first: int, routes: Routes) -> list[LostOrigins]:
        """No event from `begin` up to `first` (exclusive) is retained anywhere: routes at these origins skip them."""
        return [
            lost
            for cursor, route in self._reading_events(begin, first, routes)
            if (lost := self._lose(cursor, route, first)) is not None
        ]

    def continue_at_edge(self, begin: int, end: int, edge: Edge, routes: Routes) -> list[LostOrigins]:
        """No event from `begin` up to `end` (exclusive) is retained, but the log reaches further back: routes at these
        origins read it from its edge on. Returns what they lose."""
        lost = []
        for cursor, route in self._reading_events(begin, end, routes):
            if (gone := self._lose(cursor, route, edge.whole_from)) is not None:
                lost.append(gone)
            cursor.close_gap(edge.offset, max(edge.fence, cursor.fence))
        return lost

    def _reading_events(self, begin: int, end: int, routes: Routes) -> list[tuple[Cursor, Route]]:
        found = [(self.cursors[uid], routes[uid]) for uid in self._turns if uid in routes]
        return [(cursor, route) for cursor, route in found if cursor.gap is not None and begin <= cursor.gap < end]

    def _lose(self, cursor: Cursor, route: Route, first: int) -> LostOrigins | None:
        begin = max(cursor.gap or 0, self._start(route))
        cursor.look_past(first)
        return LostOrigins(cursor.route, begin, first - 1) if begin < first else None

    def fill(
        self,
        begin: int,
        end: int,
        events: Sequence[Matched],
        routes: Routes,
        *,
        matcher: Matcher,
        has_capacity: HasCapacity,
        has_capacity_for_chunk: HasCapacity,
    ) -> Iterator[NewDelivery]:
        """Gives the events from `begin` up to `end` (exclusive) to every route that reads events at these origins.

        A route that has just begun to, so that the matcher does not include it yet, has its turn later.
        """
        served: dict[str, tuple[Cursor, Route]] = {}
        for uid in self._turns:
            cursor, route = self.cursors[uid], routes.get(uid)
            if cursor.gap is None or route is None or route.paused or not has_capacity_for_chunk(cursor):
                continue
            cursor.look_past(self._start(route))
            if begin <= cursor.gap < end and uid in matcher:
                served[uid] = cursor, route
        for event in events:
            for uid in matcher.wanting(event) if served else ():
                if uid not in served:
                    continue
                cursor, route = served[uid]
                if cursor.gap is None or event.origin < cursor.gap:
                    continue
                given = self._give(cursor, event, route, has_capacity, NOT_MATCHED)
                if given is Taken.FULL:
                    cursor.look_past(event.origin)
                    cursor.wait(event.origin, event.at)
                    del served[uid]
                elif isinstance(given, NewDelivery):
                    cursor.caught_up_one()
                    yield given
        for cursor, _ in served.values():
            cursor.look_past(end)
            if events:
                cursor.waits_at = events[-1].at


def _pass_fence(cursors: Iterable[Cursor], record: Matched) -> int:
    """Notes the record, if it is a fence, in cursors at or before it. Returns its generation; 0 if it is not a
    fence."""
    if fence := fence_of(record):
        for cursor in cursors:
            if cursor.resume is not None and cursor.resume <= record.offset:
                cursor.pass_fence(fence)
    return fence


def _is_shut_out(cursors: Iterable[Cursor], record: Matched) -> bool:
    """Whether one of the cursors has passed a fence before the record: then it counts for all of them."""
    return any(
        cursor.resume is not None and cursor.resume <= record.offset and is_below(cursor.fence, record)
        for cursor in cursors
    )
