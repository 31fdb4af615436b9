"""Runs the Replays of a task: each is fed only as fast as it is delivered, beside all other deliveries.

A Replay is a route with a cursor of its own in every partition. The cursor holds how far it has read, which deliveries
are outstanding, and their counts; so a task that takes over resumes there, and repeats at most what any other route
would repeat. Replays do not write to `penstock.matched`, where they would displace live events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from penstock.contract.reports import ReplayProgress
from penstock.contract.routes import Replay, Route
from penstock.dispatcher.cursors.cursor import Counts, Cursor, Outstanding
from penstock.dispatcher.cursors.partition import NewDelivery, PartitionCursors
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.replay.feed import Feed, ReplayPace, StoredEvents, share
from penstock.dispatcher.replay.selection import ReplaySelection, as_replayed
from penstock.kafka.reports import Reporter
from penstock.observability.logs import describe

log = structlog.get_logger()

EVENTS_AT_ONCE = 64
"""Events that are handled in one go, well below a millisecond: live events have their turn in between."""
MAX_OUTSTANDING = 128
"""Deliveries that a Replay may have outstanding in a partition: enough to keep a subscriber busy."""
LOOK_SECONDS = 0.02
"""How often a Replay that waits checks whether it may continue."""
REPORT_SECONDS = 1.0
REPEAT_SECONDS = 5.0
"""Unchanged progress is reported again after this time: a report may have been lost."""

FindFailed = Callable[[int, Replay], Awaitable[Sequence[int]]]
"""The offsets of the events in a partition that the route named by the Replay dropped or dead-lettered."""


class ReplayDeliveries(Protocol):
    """What a Replay needs of the dispatcher."""

    partitions: dict[int, PartitionCursors]
    awaited: set[int]
    """Those among them whose cursors are not restored yet."""

    def replays(self) -> list[Route]:
        """The current Replays."""

    def has_capacity(self, cursor: Cursor) -> bool:
        """Whether a route can take one more delivery."""

    def begin(self, new: NewDelivery) -> None:
        """Schedules a delivery that a cursor has taken."""

    def pump(self) -> None:
        """Starts whatever may start."""


class Replays:
    """All Replays of a task."""

    def __init__(
        self,
        deliveries: ReplayDeliveries,
        events: StoredEvents,
        find_failed: FindFailed,
        reporter: Reporter,
        *,
        at_once: int,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._deliveries, self._events, self._find_failed = deliveries, events, find_failed
        self._reporter, self._at_once, self._wall_clock = reporter, at_once, wall_clock
        self._loop = asyncio.get_running_loop()
        self._running: set[str] = set()
        self._feeds: dict[tuple[str, int], Feed] = {}
        self._selections: dict[str, ReplaySelection] = {}
        self._paces: dict[str, ReplayPace] = {}
        self._reported: dict[tuple[str, int], tuple[float, ReplayProgress]] = {}
        self._failed: dict[str, str] = {}
        """Replays that ended by an exception, with its text."""

    async def run(self) -> None:
        """Feeds all Replays, each at its own rate; never returns."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for route in self._deliveries.replays():
                        if route.uid not in self._running:
                            self._running.add(route.uid)
                            group.create_task(self._run(route.uid), name=f"replay {route.namespace}/{route.name}")
                    self._report(self._deliveries.replays())
                    await asyncio.sleep(REPORT_SECONDS)
        finally:
            for feed in self._feeds.values():
                feed.close()

    async def _run(self, uid: str) -> None:
        """Feeds one Replay until it is deleted. One that is finished, or has failed, remains until the control plane
        has recorded that."""
        try:
            await self._feed_all(uid)
        except Exception as error:  # a defect that one Replay triggers must not end the task
            log.exception("a Replay has failed; other Replays continue", route=uid)
            self._failed[uid] = describe(error)
        while self._find(uid) is not None:  # noqa: ASYNC110  # there is no event for a new snapshot here
            await asyncio.sleep(LOOK_SECONDS)
        self._forget(uid)

    async def _feed_all(self, uid: str) -> None:
        while (route := self._find(uid)) is not None:
            moved = False
            for partition in self._deliveries.partitions:
                began = time.perf_counter()
                if partition not in self._deliveries.awaited and await self._serve(route, partition):
                    moved = True
                    # Pauses for as long as it worked, so that it never takes more than half of the time.
                    await asyncio.sleep(min(LOOK_SECONDS, time.perf_counter() - began))
            if not moved:
                await asyncio.sleep(LOOK_SECONDS)

    def _find(self, uid: str) -> Route | None:
        return next((route for route in self._deliveries.replays() if route.uid == uid), None)

    async def _serve(self, route: Route, partition: int) -> bool:
        """Feeds one Replay from one partition; whether anything moved."""
        replay = route.replay
        if replay is None or route.paused or partition >= len(replay.end) or not self._is_in_force(route):
            return False
        cursor = self._cursor(route, partition)
        feed = await self._feed(route, replay, partition, cursor)
        if not self._is_in_force(route):  # it was changed or deleted meanwhile
            return False
        if not feed.waiting and feed.read_to < feed.end:
            if not self._has_capacity(cursor):
                return False
            # A partition that does not respond must not delay the others.
            if not await feed.read(LOOK_SECONDS) or not self._is_in_force(route):
                return False
        return self._take(route, replay, cursor, feed)

    def _take(self, route: Route, replay: Replay, cursor: Cursor, feed: Feed) -> bool:
        """Handles what was read, as far as there is capacity. Nothing is awaited, so the cursor cannot change
        meanwhile."""
        selection, pace, counts = self._selection(route, replay), self._pace(route, replay), cursor.counts
        if counts is None:
            return False
        if missing := feed.take_missing():
            counts.missing += missing
            cursor.pass_over(feed.waiting[0].origin if feed.waiting else feed.read_to)
        moved = bool(missing)
        for _ in range(min(len(feed.waiting), EVENTS_AT_ONCE)):
            record = feed.waiting[0]
            if selection.wants(record):
                if not replay.dry_run and not (self._has_capacity(cursor) and pace.may(self._loop.time())):
                    break
                counts.counted += 1
                if not replay.dry_run:
                    self._begin(route, cursor, record)
                    pace.begun()
            feed.waiting.popleft()
            cursor.pass_over(record.origin + 1)
            moved = True
        if not feed.waiting and cursor.next < feed.read_to:
            cursor.pass_over(feed.read_to)
            moved = True
        if moved:
            self._deliveries.pump()
        return moved

    def _begin(self, route: Route, cursor: Cursor, record: Matched) -> None:
        replayed = as_replayed(record, route)
        key = replayed.ordering_key() if route.ordering == "key" else 0
        taken = cursor.take(record.origin, record.offset, int(self._wall_clock() * 1000), key, free=True)
        if isinstance(taken, Outstanding):
            self._deliveries.begin(NewDelivery(cursor, taken, replayed))

    def _has_capacity(self, cursor: Cursor) -> bool:
        return len(cursor.outstanding) < MAX_OUTSTANDING and self._deliveries.has_capacity(cursor)

    def _is_in_force(self, route: Route) -> bool:
        return self._find(route.uid) is route

    def _cursor(self, route: Route, partition: int) -> Cursor:
        cursor = self._deliveries.partitions[partition].cursor(route.uid)
        if cursor.counts is None:
            cursor.counts = Counts()
        return cursor

    async def _feed(self, route: Route, replay: Replay, partition: int, cursor: Cursor) -> Feed:
        feed = self._feeds.get((route.uid, partition))
        if feed is None:
            only = None if replay.given_up_by is None else await self._find_failed(partition, replay)
            begin = route.start[partition] if partition < len(route.start) else 0
            position, end = max(cursor.next, begin), replay.end[partition]
            feed = Feed(self._events, partition, position, end, at_once=self._at_once, only=only)
            self._feeds[route.uid, partition] = feed
        return feed

    def _selection(self, route: Route, replay: Replay) -> ReplaySelection:
        selection = self._selections.get(route.uid)
        if selection is None or selection.route is not route:
            selection = self._selections[route.uid] = ReplaySelection(route, replay)
        return selection

    def _pace(self, route: Route, replay: Replay) -> ReplayPace:
        pace = self._paces.get(route.uid)
        if pace is None:
            own = share(replay.rate, len(self._deliveries.partitions), len(replay.end))
            pace = self._paces[route.uid] = ReplayPace(own, self._loop.time())
        return pace

    def _forget(self, uid: str) -> None:
        self._running.discard(uid)
        self._failed.pop(uid, None)
        self._paces.pop(uid, None)
        self._selections.pop(uid, None)
        for partition in self._deliveries.partitions:
            if (feed := self._feeds.pop((uid, partition), None)) is not None:
                feed.close()
            self._reported.pop((uid, partition), None)

    # --- progress ------------------------------------------------------------------------------------------------

    def _report(self, routes: Sequence[Route]) -> None:
        now = self._loop.time()
        for route in routes:
            for partition, cursors in self._deliveries.partitions.items():
                cursor, feed = cursors.cursors.get(route.uid), self._feeds.get((route.uid, partition))
                if problem := self._failed.get(route.uid):
                    self._send(failed_progress(route.uid, partition, cursor, problem), now)
                elif cursor is not None and cursor.counts is not None and feed is not None:
                    self._send(progress_of(cursor, cursor.counts, feed, partition), now)

    def _send(self, progress: ReplayProgress, now: float) -> None:
        ident = (progress.route, progress.partition)
        last = self._reported.get(ident)
        if last is None or last[1] != progress or now - last[0] >= REPEAT_SECONDS:
            self._reported[ident] = (now, progress)
            self._reporter.replayed(progress)


def failed_progress(route: str, partition: int, cursor: Cursor | None, problem: str) -> ReplayProgress:
    """The progress of a Replay that has failed."""
    counts = (cursor.counts if cursor is not None else None) or Counts()
    position, under_way = (0, 0) if cursor is None else (cursor.next, len(cursor.outstanding))
    return ReplayProgress(
        route, partition, position, counts.counted, counts.failed, under_way, counts.missing, False, problem
    )


def progress_of(cursor: Cursor, counts: Counts, feed: Feed, partition: int) -> ReplayProgress:
    """The progress of a Replay, by its cursor."""
    under_way = len(cursor.outstanding)
    return ReplayProgress(
        cursor.route,
        partition,
        position=max(cursor.next, min(feed.read_to, feed.end) if feed.exhausted else 0),
        counted=counts.counted,
        failed=counts.failed,
        under_way=under_way,
        missing=counts.missing,
        finished=feed.exhausted and not under_way,
    )
