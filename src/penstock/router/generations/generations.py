"""Generations: how a change of routes gets into the running router without an event lost or kept waiting.

Real-Time Mode plans a query once, so other routes need another query. Generation N+1 starts beside N, right after the
newest origin in each partition of `penstock.matched`, and N ends when N+1 has caught up. Why nothing is lost:

1. A query writes a partition's events in order: one task, one idempotent producer. So when N has written origin o to
   `penstock.matched`, every event up to o that matches something is there too, and o + 1 is a safe start. What N read
   and never wrote, because it was stopped or killed, comes after its newest origin, so N+1 reads it.
2. N+1 has caught up when a marker, written to every partition before N+1 started, has come out of N+1 in every
   partition. Then N is stopped, it is recorded that routing resumes from N+1's records, and a fence shuts out what N
   may still write: a task that Spark could not reach, or another driver's (see `fencing.py`). A second marker must
   come out of N+1, which then has written everything older than that. Only now is the version acknowledged. So if
   everything crashes at any moment, routing resumes from N+1's own records, or from N's and before the
   acknowledgement, when no new route was promised anything. Without a running N, record and fence are written before
   N+1 starts.
3. During the overlap N may be ahead while both write the same partition, so origins fall back there. For a route that
   both know, N+1 repeats what N wrote, and the dispatcher's cursor drops it. A route that only N+1 knows is not listed
   by N, so its cursor moves with N+1's records alone. A route whose filter changed gets the verdict of either filter
   for the events of the overlap.
4. A route that N did not know moves the start back to the route's own `start`, as far as events are retained. So it
   gets everything since it was published, and a replay is only an older start. N serves meanwhile. What
   retention has removed is reported as lost to that route.
   The other routes start where routing had got to, so that what they have had is not written again.
   Which routes the records hold for is noted outside this process (`served_routes.py`), so all of this is true over
   a restart as well, also for a route that was left out for a while.
5. An event with more routes than fit into a record becomes several, and origin o counts as written with the last of
   them only; a record before it counts as o - 1. So if a query ends between two of them, o is read and written again
   as a whole, and the cursors of the routes that had it already drop it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from penstock.contract import event_log, topics
from penstock.contract.generations import LivePoint
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.kafka.topic_ends import Retained, TopicEnds
from penstock.router.generations import positions
from penstock.router.generations.fencing import Fencing
from penstock.router.generations.markers import MarkerSender, MarkerWatch
from penstock.router.generations.positions import LostRange, StartOffsets
from penstock.router.generations.served_routes import ServedRoutes
from penstock.router.matched_record import MatchedRecord
from penstock.router.plan.route_index import RouteTable, index_routes
from penstock.router.plan.unplannable import Unplannable
from penstock.router.watchdogs import AwakeClock

log = structlog.get_logger()

START_SECONDS = 60.0
"""How long a new generation may take to write its first record before it counts as failed."""

CATCH_UP_SECONDS = 15.0
"""How long one partition may then be without records while the generation catches up."""

WARM_UP_MARKERS = 250
"""Markers sent through each partition of the first generation, so that no event has to wait for the compiler."""


class RunningQuery(Protocol):
    """What a generation needs of its query."""

    def alive(self) -> bool:
        """Whether it runs."""

    def reason(self) -> str:
        """Why it ended."""

    def stop(self) -> None:
        """Stops it and its tasks. Raises CannotStop if it may still write later."""


Launch = Callable[[RouteTable, int, StartOffsets], RunningQuery]


class GenerationFailed(RuntimeError):
    """A generation ended or stood still before it was live."""


class StandsStill(GenerationFailed):
    """A generation runs, and some of its partitions make no progress."""


class CannotStop(RuntimeError):
    """A query or one of its tasks could not be stopped, so it may still write: the process has to end."""


class Stopping(Exception):
    """The service ends while a generation starts."""


@dataclass
class Generation:
    """A query, the routes it was made for, and those among them that it leaves out, with the reason."""

    number: int
    version: int
    routes: Mapping[str, Route]
    query: RunningQuery
    refused: Mapping[str, str] = field(default_factory=dict)


def routed(routes: Mapping[str, Route]) -> dict[str, Route]:
    """The routes that the router serves; Replays are not among them, their events were routed long ago."""
    return {uid: route for uid, route in routes.items() if route.replay is None}


def same_routing(before: Mapping[str, Route], now: Mapping[str, Route]) -> bool:
    """Whether two sets of routes match the same events; where they deliver to does not concern the router."""
    before, now = routed(before), routed(now)
    return before.keys() == now.keys() and all(_routing(before[uid]) == _routing(route) for uid, route in now.items())


def _routing(route: Route) -> tuple[object, ...]:
    return route.target, route.attributes, route.filters, route.start


class Generations:
    """The live generation and the way to the next. Used by one thread only."""

    def __init__(
        self,
        launch: Launch,
        tail: TopicEnds[MatchedRecord],
        sender: MarkerSender,
        watch: MarkerWatch,
        unplannable: Unplannable,
        *,
        live: Callable[[Generation], None],
        lost: Callable[[Route, LostRange], None],
        served: ServedRoutes,
        fencing: Fencing,
        stopping: Callable[[], bool],
        check_slots: Callable[[int, bool], None] = lambda partitions, beside: None,
        heartbeat: Callable[[], None] = lambda: None,
        clock: Callable[[], float] | None = None,
        log_id: Callable[[], str] = lambda: "",
    ) -> None:
        """`log_id` returns the id of the topic of the events."""
        self._launch, self._tail, self._sender, self.watch = launch, tail, sender, watch
        self._unplannable = unplannable
        self._announce, self._lost, self._stopping = live, lost, stopping
        self._served, self._fencing, self._log_id = served, fencing, log_id
        self._check_slots, self._heartbeat, self.clock = check_slots, heartbeat, clock or AwakeClock()
        """Raises TooFewSlots where there are no slots for a query of so many partitions, beside another or alone."""
        self._newest_number = 0
        self._looked_back = False
        self._partitions = 0
        self._reported: set[tuple[str, LostRange]] = set()
        self.live: Generation | None = None

    def acts_by(self, snapshot: Snapshot) -> bool:
        """Whether these very routes are in force. The topic's order decides which snapshot is the newest, not its
        number. Routes that were left out for a while are to be tried again."""
        return self.live is not None and self.live.routes is snapshot.routes and not self._unplannable.due()

    def advance(self, snapshot: Snapshot) -> None:
        """Brings the snapshot's routes into force; returns when they are."""
        before = self.live
        as_before = before is not None and same_routing(before.routes, snapshot.routes) and not self._unplannable.due()
        if before is not None and as_before and self._serves(before):
            self._fencing.confirm()
            before.version, before.routes = snapshot.version, snapshot.routes
            self._announce(before)
            return
        began = time.monotonic()
        partitions = self._partitions = self._tail.partitions()
        beside = before is not None and before.query.alive()
        self._check_slots(partitions, beside)
        wanted = routed(snapshot.routes)
        unfit = self._unplannable.known(wanted)
        table = index_routes(route for uid, route in wanted.items() if uid not in unfit)
        refused = {**unfit, **table.refused}
        routes = {uid: route for uid, route in wanted.items() if uid not in refused}
        self._look_back(snapshot, beside=beside)
        newcomers = self._served.newcomers(routes.values())
        start = self._start_offsets(routes, newcomers)
        self._note_left_out(snapshot, routes, start)
        if start.reached:
            table = table.starting(positions.starts_of_served(routes.values(), newcomers, start))
        ends = self._tail.retained(topics.MATCHED, partitions)
        self._newest_number = self._fencing.number_after(self._newest_number)
        marks, offsets = self._sender.send(self._newest_number, range(partitions))
        point = LivePoint(self._newest_number, start.reached or start.offsets, tuple(kept.end for kept in ends))
        if not beside:
            self._fencing.shut_out_others(point)
        query = self._launch(table, self._newest_number, start)
        following = Generation(self._newest_number, snapshot.version, snapshot.routes, query, refused)
        try:
            self._tail.follow(ends)
            self.watch.sent(marks, offsets, self.clock(), timed=False)
            if before is not None and beside:
                self._take_over(before, following, point)
            else:
                self._begin(before, following, catch_up=bool(start.reached))
        except BaseException:
            query.stop()
            self.watch.pending = None
            raise
        finally:
            if self.watch.pending is None:
                self._tail.rest()
        self.live = following
        self._note_served(snapshot, routes, newcomers, start)
        self._reported.clear()
        log.info(
            "a generation of routes is live",
            generation=following.number,
            version=snapshot.version,
            routes=len(snapshot.routes),
            seconds=round(time.monotonic() - began, 2),
        )
        self._announce(following)

    def _serves(self, live: Generation) -> bool:
        """Whether it runs, and no later generation can have begun that no fence shuts out.

        A later one that failed has been stopped, but a task of it that Spark could not reach may still write, with
        routes that never came into force and a higher number. The next generation shuts out both.
        """
        return live.query.alive() and live.number == self._newest_number

    def watch_markers(self) -> None:
        """Sends markers when they are due and there is traffic, and watches those in transit."""
        if self.live is None:
            return
        now = self.clock()
        if self.watch.due(now):
            retained = self._retained_events()
            busy = self.watch.busy(retained)
            if not busy:
                self.watch.looked(now)
                return
            self._tail.follow(self._tail.retained(topics.MATCHED, len(retained)))
            self.watch.sent(*self._sender.send(self.live.number, busy), now)
        if self.watch.pending is None:
            return
        found = self._poll()
        self.watch.saw(found, self.clock())
        if self.watch.pending is None:
            self._tail.rest()
        if self.watch.pending is None or not found:
            self.watch.measure(self._retained_events())

    def replace(self) -> None:
        """Stops a generation that stands still, so that it counts as ended."""
        if self.live is not None:
            self.live.query.stop()
        self.watch.pending = None
        self._tail.rest()

    def stop(self) -> None:
        """Ends the live generation."""
        if self.live is not None:
            self.live.query.stop()
            self.live = None

    def _retained_events(self) -> list[Retained]:
        return self._tail.retained(topics.EVENTS, self._partitions)

    def _poll(self) -> list[MatchedRecord]:
        """What queries have written since the last call. Raises RouterSuperseded where another router's has."""
        found = self._tail.poll(0.1)
        self._fencing.check(found)
        return [record for record in found if not record.fence]

    def _take_over(self, before: Generation, following: Generation, point: LivePoint) -> None:
        """Stops the former generation when the following one has caught up, and makes sure that only that one
        writes."""
        self._wait(following, lambda: self.watch.pending is None)
        before.query.stop()
        self._fencing.shut_out_others(point)
        self.watch.sent(*self._sender.send(following.number, range(self._partitions)), self.clock())
        self._wait(following, lambda: self.watch.pending is None, first=CATCH_UP_SECONDS)

    def _begin(self, before: Generation | None, following: Generation, *, catch_up: bool) -> None:
        """Without another generation beside it, one is live with its first record, however much it has to catch up.

        This does not hold if it reaches back for new routes: until it has caught up, the newest records of some
        partitions are of the former generation, and a restart would continue after them.
        """
        if before is not None:
            before.query.stop()
        self._wait(following, lambda: self.watch.pending is None or not catch_up)
        if before is None and self.watch.pending is None:
            warm_up = self._sender.send(following.number, range(self._partitions), WARM_UP_MARKERS)
            self.watch.sent(*warm_up, self.clock(), timed=False)
            self._wait(following, lambda: self.watch.pending is None, first=CATCH_UP_SECONDS)

    def _wait(self, generation: Generation, enough: Callable[[], bool], first: float = START_SECONDS) -> None:
        """Waits until the generation has written something and that is enough. Raises when it ends or stands still.

        It may take `first` seconds until its first record.
        """
        seen = False
        while not (seen and enough()):
            self._heartbeat()
            if self._stopping():
                raise Stopping
            if not generation.query.alive():
                raise GenerationFailed(f"generation {generation.number} ended: {generation.query.reason()}")
            found = self._poll()
            now = self.clock()
            self.watch.saw(found, now)
            if not seen and any(record.generation == generation.number for record in found):
                seen = True
                self.watch.reset(now)  # Spark has been starting until now
            limit = CATCH_UP_SECONDS if seen else first
            if late := [partition for partition, waited in self.watch.late(now).items() if waited > limit]:
                self._retained_events()  # raises KafkaAway if that is the reason
                raise StandsStill(f"generation {generation.number} stands still in partitions {sorted(late)}")

    def examine(self, snapshot: Snapshot) -> bool:
        """After a failed start: whether routes were found that cause it, which the next start leaves out."""
        return self._unplannable.examine(routed(snapshot.routes), {} if self.live is None else self.live.routes)

    def _start_offsets(self, routes: Mapping[str, Route], newcomers: list[Route]) -> StartOffsets:
        written = self._tail.retained(topics.MATCHED, self._partitions)
        found = {number: self._routed(number, kept.end) for number, kept in enumerate(written)}
        newest = {number: origin for number, origin in found.items() if origin is not None}
        retained = self._retained_events()
        start = positions.resume(newest, retained)
        others = routes.keys() - {route.uid for route in newcomers}
        self._report_losses(positions.losses(start.gaps, [routes[uid] for uid in others]))
        self._report_losses(positions.out_of_reach(newcomers, retained))
        if newcomers:
            start = positions.reach_back(start, newcomers, retained)
        log.info(
            "routing resumes",
            offsets=list(start.offsets),
            ends=[kept.end for kept in retained],
            by=topics.MATCHED if newest else "the oldest events: nothing has been routed yet",
        )
        return start

    def _check_log(self, snapshot: Snapshot) -> None:
        """Checks that the log of events is the one that was routed before, and that routes refer to. Raises
        AnotherLog."""
        made = [
            self._tail.newest(number, 0, lambda record: record.made_from >= 0) for number in range(self._partitions)
        ]
        events = self._retained_events()  # read after the matched records: both grow meanwhile
        starts = [(uid, route.start) for uid, route in routed(snapshot.routes).items()]
        event_log.check_starts(starts, [kept.end for kept in events])
        for partition, (kept, newest) in enumerate(zip(events, made, strict=True)):
            if newest is None:
                continue
            event_log.check_end(partition, newest.made_from + 1, kept.end, "routing")
            found = self._tail.event(partition, newest.made_from) if newest.made_from >= kept.first else None
            if found is not None:
                event_log.check_same(partition, newest.made_from, newest.identity, event_log.identity(found))

    def _look_back(self, snapshot: Snapshot, *, beside: bool) -> None:
        """Looks for lost records before the first generation, so that its number is above everything ever written; and
        checks before each one without another beside it that the log is the same. Raises AnotherLog."""
        if not self._looked_back:
            self._fencing.check_log(self._log_id())
        if not beside:
            self._check_log(snapshot)
        if self._looked_back:
            return
        self._fencing.look_for_lost_records(self._tail.backwards(number) for number in range(self._partitions))
        self._looked_back = True
        if unrecorded := self._fencing.unrecorded:
            log.warning(
                "notes of the last router were lost, in a power loss perhaps; routing resumes at its fence, and events "
                "since then are routed again, of which cursors drop what was delivered",
                generation=unrecorded,
                since=self._fencing.owed,
            )
            self._fencing.note_served(self._served.owe_all(self._fencing.owed))
        self._fencing.note_served(self._served.owe_cut_off(self._matched_ends()))

    def _matched_ends(self) -> tuple[int, ...]:
        return tuple(kept.end for kept in self._tail.retained(topics.MATCHED, self._partitions))

    def _routed(self, partition: int, end: int) -> int | None:
        """The newest origin that counts as routed: of the generation from which routing resumes, whatever others wrote.

        If that is not recorded, it is the highest generation that has written. The same holds if the log has lost its
        end in a power loss and no longer reaches to where that generation began: what its predecessor wrote is gone as
        well then. The newest record does not decide: it may be one that a fence shuts out.
        """
        if unrecorded := self._fencing.unrecorded:
            written = self._tail.newest(partition, 0, lambda record: record.generation == unrecorded)
            if written is not None:
                return self.watch.origin(written)
            point = None
        else:
            point = self._fencing.point
        if point is not None and partition < len(point.ends) and point.ends[partition] <= end:
            counts = lambda record: record.generation == point.number and not record.fence  # noqa: E731
            own = self._tail.newest(partition, point.ends[partition], counts)
            return max(point.start[partition] - 1, -1 if own is None else self.watch.origin(own))
        highest = self._fencing.highest[partition] if partition < len(self._fencing.highest) else 0
        newest = self._tail.newest(partition, 0, lambda record: record.generation == highest)
        return None if newest is None else self.watch.origin(newest)

    def _note_left_out(self, snapshot: Snapshot, routes: Mapping[str, Route], start: StartOffsets) -> None:
        """Records what a query leaves out before it starts: this process may end right after."""
        owed = self._served.left_out(snapshot, routes, start.reached or start.offsets)
        self._fencing.note_served(owed)
        self._served.take(owed)

    def _note_served(
        self, snapshot: Snapshot, routes: Mapping[str, Route], newcomers: list[Route], start: StartOffsets
    ) -> None:
        since = {route.uid: route.start for route in newcomers} if start.reached else {}
        changes = self._served.live(snapshot, routes, since, self._matched_ends() if since else ())
        self._fencing.note_served(changes)

    def _report_losses(self, losses: list[tuple[Route, LostRange]]) -> None:
        """Reports losses before the query starts, so that a crash hides none; each once, however often it is tried."""
        for route, gap in losses:
            if (route.uid, gap) not in self._reported:
                self._reported.add((route.uid, gap))
                self._lost(route, gap)
