"""Which delivery is attempted next: a lane per route, lanes in turn, waiting deliveries by due time.

Requests in flight are limited per lane and in total; a few are granted to every lane whatever the others do, so that
subscribers that hang cannot use up the task. A lane whose route is paused, or needs a Secret that is not available,
keeps its deliveries; one whose route is gone drops them. With `ordering: key` a delivery of a key becomes ready when
the one before it has ended.

There is a circuit breaker: an unreachable subscriber is tried in rounds of a few deliveries, with pauses between them.
Every delivery still gets all its attempts, and the first response closes the breaker. The limit is on what the attempts
of all such routes together may take from the others: the more there are, the longer each pauses.

Time is the event loop's, passed in by the caller: it never goes back, unlike the wall clock.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass

from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.matched_record import Matched

ATTEMPTS_PER_SECOND = 2000
"""Limit of all unreachable routes of a task together."""
SHORT_REST_SECONDS = 0.01
LONG_REST_SECONDS = 1.0
"""A pause is longer only if so many are unreachable that one attempt each exceeds the limit."""


def rounds(unreachable: int) -> tuple[int, float]:
    """How many deliveries a route may start at once, and how long it pauses then, if so many are unreachable."""
    rest = min(LONG_REST_SECONDS, SHORT_REST_SECONDS * unreachable)
    size = max(1, int(ATTEMPTS_PER_SECOND * rest / unreachable))
    return size, size * unreachable / ATTEMPTS_PER_SECOND


GRANTED = 8
"""Requests that a lane may have in flight even when the task has reached its limit."""


class Lane:
    """The deliveries of one route in this task, over all its partitions."""

    __slots__ = (
        "blocked",
        "gone",
        "in_flight",
        "lacks_secret",
        "limit",
        "payload_bytes",
        "ready",
        "resting",
        "round",
        "route",
        "unreachable",
        "waiting",
    )

    def __init__(self, route: Route, limit: int) -> None:
        self.route = route
        self.limit = limit
        self.gone = False
        self.in_flight = 0
        self.ready: deque[Job] = deque()
        self.waiting: set[Job] = set()
        """Those that are not due yet."""
        self.blocked: dict[tuple[int, int], deque[Job]] = {}
        """By partition and key, the deliveries that wait for the one before them. Empty while only that one is left."""
        self.payload_bytes = 0
        self.unreachable = False
        """Whether the last connection failed: the circuit breaker is open."""
        self.round = 0
        """Requests that may be in flight while it is unreachable."""
        self.resting = False
        self.lacks_secret = False
        """Whether the route needs a Secret that is not available: it keeps its deliveries until it is."""

    @property
    def open(self) -> bool:
        """Whether a request may start now."""
        return (
            bool(self.ready)
            and self.in_flight < (self.round if self.unreachable else self.limit)
            and not self.resting
            and not self.route.paused
            and not self.lacks_secret
            and not self.gone
        )


@dataclass(slots=True, eq=False)
class Job:
    """A delivery in memory."""

    lane: Lane
    partition: int
    cursor: Cursor
    delivery: Outstanding
    record: Matched | None = None
    """None if memory was short: it is read again when it is the job's turn."""
    payload: StagePayload | None = None
    due: float = 0.0
    """Not before this time of the event loop."""


class Schedule:
    """All lanes of a task."""

    def __init__(self, max_in_flight: int) -> None:
        self.in_flight = 0
        self._max_in_flight = max_in_flight
        self._open: OrderedDict[str, Lane] = OrderedDict()
        self._held: OrderedDict[str, Lane] = OrderedDict()
        """Lanes that could send if the task had fewer requests in flight."""
        self._waiting: list[tuple[float, int, Job]] = []
        """By due time. Those of a lane that is gone stay until they are due, or are too many."""
        self._dropped = 0
        """How many of them belong to lanes that are gone."""
        self._resting: list[tuple[float, int, Lane]] = []
        self._unreachable: set[str] = set()
        self._sequence = itertools.count()

    def add(self, job: Job, now: float) -> None:
        """Adds a delivery that begins or is restored. Those of one key must be added in the order of their origins."""
        if job.delivery.key:
            slot = (job.partition, job.delivery.key)
            before = job.lane.blocked.get(slot)
            if before is not None:
                before.append(job)
                return
            job.lane.blocked[slot] = deque()
        self._queue(job, now)

    def _queue(self, job: Job, now: float) -> None:
        if job.due > now:
            heapq.heappush(self._waiting, (job.due, next(self._sequence), job))
            job.lane.waiting.add(job)
        else:
            job.lane.ready.append(job)
            self.refresh(job.lane)

    def refresh(self, lane: Lane) -> None:
        """Checks again whether a lane may send, after it changed."""
        if lane.open and lane.route.uid not in self._held:
            self._open.setdefault(lane.route.uid, lane)

    def pop(self) -> Job | None:
        """The next job to start, lanes in turn; None if none may start."""
        while self._open:
            uid, lane = self._open.popitem(last=False)
            if not lane.open:
                continue
            if self.in_flight >= self._max_in_flight and lane.in_flight >= GRANTED:
                self._held[uid] = lane
                continue
            job = lane.ready.popleft()
            lane.in_flight += 1
            self.in_flight += 1
            if lane.open:
                self._open[uid] = lane
            return job
        return None

    def landed(self, job: Job) -> None:
        """The job's request has ended; `retry` or `ended` is called next."""
        job.lane.in_flight -= 1
        self.in_flight -= 1
        self._held.pop(job.lane.route.uid, None)
        self.refresh(job.lane)
        if self._held and self.in_flight < self._max_in_flight:
            self.refresh(self._held.popitem(last=False)[1])

    def retry(self, job: Job, now: float) -> None:
        """The delivery continues at its due time."""
        if not job.lane.gone:
            self._queue(job, now)

    def ended(self, job: Job, now: float) -> None:
        """The delivery has ended: the one that waited for its key is next."""
        if not job.delivery.key:
            return
        slot = (job.partition, job.delivery.key)
        waiting = job.lane.blocked.get(slot)
        if waiting:
            self._queue(waiting.popleft(), now)
        else:
            job.lane.blocked.pop(slot, None)

    def unreached(self, lane: Lane, now: float) -> None:
        """No connection: the lane pauses, then makes a few attempts at a time until there is one."""
        if lane.gone or lane.resting:
            return
        self._unreachable.add(lane.route.uid)
        lane.unreachable = lane.resting = True
        size, rest = rounds(len(self._unreachable))
        lane.round = min(size, lane.limit)
        heapq.heappush(self._resting, (now + rest, next(self._sequence), lane))

    def reached(self, lane: Lane) -> None:
        """The subscriber responds again."""
        self._unreachable.discard(lane.route.uid)
        lane.unreachable = False
        self.refresh(lane)

    def due(self, now: float) -> int:
        """Makes due deliveries ready, and wakes lanes whose pause is over; returns how many deliveries were due."""
        while self._resting and self._resting[0][0] <= now:
            lane = heapq.heappop(self._resting)[2]
            lane.resting = False
            self.refresh(lane)
        count = 0
        while self._waiting and self._waiting[0][0] <= now:
            job = heapq.heappop(self._waiting)[2]
            if job.lane.gone:
                self._dropped -= 1
                continue
            job.lane.waiting.discard(job)
            job.lane.ready.append(job)
            self.refresh(job.lane)
            count += 1
        return count

    @property
    def next_due(self) -> float | None:
        """When something is due next."""
        while self._waiting and self._waiting[0][2].lane.gone:
            heapq.heappop(self._waiting)
            self._dropped -= 1
        heads = [queue[0][0] for queue in (self._waiting, self._resting) if queue]
        return min(heads) if heads else None

    def close(self, lane: Lane) -> list[Job]:
        """The route is gone: its lane drops everything that is not in flight."""
        lane.gone = True
        self._unreachable.discard(lane.route.uid)
        self._open.pop(lane.route.uid, None)
        self._held.pop(lane.route.uid, None)
        self._dropped += len(lane.waiting)
        if self._dropped * 2 > len(self._waiting):
            self._waiting = [item for item in self._waiting if not item[2].lane.gone]
            heapq.heapify(self._waiting)
            self._dropped = 0
        dropped = list(lane.waiting)
        lane.waiting.clear()
        dropped.extend(lane.ready)
        for blocked in lane.blocked.values():
            dropped.extend(blocked)
        lane.ready.clear()
        lane.blocked.clear()
        return dropped
