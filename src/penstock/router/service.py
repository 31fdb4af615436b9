"""The router as a service: follows the snapshot, keeps one generation live, restarts it when it dies, reports.

One thread makes all decisions; the follower's thread only hands over the newest snapshot, and a watchdog checks whether
that one thread hangs. While Kafka is unreachable it waits, however long. A query that keeps failing or standing still
although Kafka responds is a failure of the service. So is, at once, the end of Spark, and a query that cannot be
stopped. A failure of the service ends the process, and the supervisor restarts it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from penstock.contract import topics
from penstock.contract.event_log import AnotherLog
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.filters.predicate import Predicate
from penstock.filters.walk import count_terms
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.fences import FenceWriter, MarkerWriter, RouterSuperseded
from penstock.kafka.reports import Reporter, ServedReader
from penstock.kafka.table import SnapshotFollower
from penstock.kafka.topic_ends import KAFKA_SECONDS, KafkaAway, TopicEnds
from penstock.kafka.transactions import StoppedWaiting
from penstock.observability import metrics
from penstock.observability.logs import describe
from penstock.router import watchdogs
from penstock.router.generations.fencing import Fencing
from penstock.router.generations.generations import (
    CannotStop,
    Generation,
    GenerationFailed,
    Generations,
    StandsStill,
    Stopping,
)
from penstock.router.generations.markers import MarkerSender, MarkerWatch
from penstock.router.generations.positions import StartOffsets
from penstock.router.generations.served_routes import ServedRoutes
from penstock.router.matched_record import MatchedRecord, decode
from penstock.router.plan.route_index import RouteTable, index_routes
from penstock.router.plan.unplannable import Unfit, Unplannable, attempt
from penstock.router.query import Query, launch, sweep
from penstock.router.reports import Announcements, UnreadableEvents
from penstock.router.watchdogs import HangWatchdog, StallGuard, StallVerdict, TooFewSlots, stack_of
from penstock.runtime.lifecycle import kill_process_tree
from penstock.runtime.rate_limit import pause_after
from penstock.settings import Settings

log = structlog.get_logger()

RETRY_SECONDS = (0.2, 10.0)
"""First and longest pause before the next generation is tried."""

MAX_FAILURES = 8
"""Queries that may fail in a row, with Kafka reachable, before the service fails."""

STEADY_SECONDS = 30.0
"""How long a query must have run to count as one that works."""

ALARM_SECONDS = 5.0
"""How long a partition may be without progress, although a marker is due there, before status and metrics show that."""

PLAN_SECONDS = 60.0
"""How long Spark may take to start a query or to try routes, with a cold compiler on a busy machine."""

PLAN_SECONDS_PER_TERM = 0.01
"""Additional time for each term of the routes' filters."""

RECORD_SECONDS = 600.0
"""How long Kafka may be unreachable while the point from which routing resumes is recorded."""

CLOSE_SECONDS = 60.0
"""How long the query and all clients may take together to stop."""

LOOK_SECONDS = 0.5
"""Pause between checks of the query while nothing happens."""


class SparkGone(RuntimeError):
    """Spark has ended, so no query can run."""


class RouterHangs(RuntimeError):
    """The router's thread makes no progress any more."""


class RouterService:
    """Routes events until it is stopped."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        end_process: Callable[[], None] | None = None,
        *,
        epoch: int = 0,
    ) -> None:
        self._spark, self._settings = spark, settings
        self._end_process = end_process or kill_process_tree
        self._stop, self._ready, self._changed = threading.Event(), threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._ending = threading.Event()
        """Set to end waiting for Kafka."""
        self._broken_part: BaseException | None = None
        self._status: dict[str, Any] = {
            "epoch": epoch,
            "generation": 0,
            "version": 0,
            "lag": 0,
            "marker_transit_ms": None,
        }
        self._failures = 0
        self._live_since = 0.0
        self._stall_guard = StallGuard()
        self._reporter: Reporter
        self._newest_dead = 0
        self._watchdog = HangWatchdog(self._hangs)
        self._thread = threading.Thread(target=self._run, name="router", daemon=True)

    def start(self) -> None:
        """Starts; returns at once."""
        self._thread.start()
        self._watchdog.start()

    def wait_ready(self, timeout: float) -> None:
        """Returns when the first generation is live. Raises TimeoutError, or what made the service fail."""
        deadline = time.monotonic() + timeout
        while not self._ready.wait(0.1):
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"the router was not ready within {timeout:g} s: {self._status}")

    def status(self) -> dict[str, Any]:
        """Generation, version, lag in events, transit time of markers in ms, and seconds without progress."""
        return dict(self._status)

    def failure(self) -> BaseException | None:
        """Why the service ended by itself; None while it runs or when it was stopped."""
        return self._failure

    def stop(self) -> None:
        """Ends the query and everything the service started."""
        self._stop.set()
        self._ending.set()
        self._changed.set()
        if self._thread.is_alive() and self._failure is None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        reporter = self._reporter = Reporter(self._settings, "router", "router", self._part_failed)
        follower = SnapshotFollower(self._settings, lambda snapshot: self._changed.set(), self._part_failed)
        tail = TopicEnds(self._settings, decode, asking=self._watchdog.heartbeat)
        unreadable = UnreadableEvents(self._settings)
        reader = ServedReader(self._settings, self._part_failed)
        writer = FenceWriter(self._settings)
        self._ending = writer.stop_waiting
        fencing = Fencing(reader, writer, lambda: self._watchdog.heartbeat("records the point", RECORD_SECONDS))
        generations = self._generations(tail, reporter, unreadable, ServedRoutes(reader.served), fencing)
        try:
            sweep(self._settings)
            follower.start()
            self._watchdog.heartbeat("takes over", RECORD_SECONDS)
            writer.take_over()
            reader.start()
            while not (follower.caught_up.wait(0.1) and reader.read.wait(0.1)):
                self._watchdog.heartbeat("waits for the routes")
                self._check_parts()
                if self._stop.is_set():
                    return
            reader.stop()
            while not self._stop.is_set():
                self._turn(generations, follower)
                writer.look_after()
                unreadable.look()
                self._status["unreadable"] = unreadable.count
                self._check_parts()
        except (Stopping, StoppedWaiting):
            log.debug("stopped while a generation started")
        except AnotherLog as error:
            self._failure = error
            log.error("the router refuses the events", reason=str(error))
        except BaseException as error:  # whatever it is, the service has failed with it
            self._failure = error
            log.exception("the router has failed")
        finally:
            self._watchdog.heartbeat("stops", CLOSE_SECONDS)
            with contextlib.ExitStack() as closing:
                for close in (
                    self._watchdog.stop,
                    reporter.close,
                    unreadable.close,
                    tail.close,
                    reader.stop,
                    writer.close,
                    follower.stop,
                ):
                    closing.callback(close)
                if not isinstance(self._failure, CannotStop):
                    generations.stop()

    def _hangs(self, doing: str) -> None:
        """Ends the process, because the thread that routes cannot be ended. Called by the watchdog."""
        self._failure = RouterHangs(f"the router hangs: it {doing}")
        log.error("the router hangs; this process ends, to be restarted", doing=doing, at=stack_of(self._thread))
        self._end_process()

    def _part_failed(self, error: BaseException) -> None:
        """A thread of the service has ended by an exception; the service fails with it at its next turn."""
        self._broken_part = self._broken_part or error
        self._changed.set()

    def _check_parts(self) -> None:
        if self._broken_part is not None:
            raise self._broken_part

    def _generations(
        self,
        tail: TopicEnds[MatchedRecord],
        reporter: Reporter,
        unreadable: UnreadableEvents,
        served: ServedRoutes,
        fencing: Fencing,
    ) -> Generations:
        def start(table: RouteTable, number: int, where: StartOffsets) -> Query:
            unreadable.start(tail.retained(topics.UNREADABLE, len(where.offsets)))
            self._watchdog.heartbeat("starts a query", plan_seconds(table.predicates))
            return launch(self._spark, self._settings, table, number, where)

        def probe(routes: Sequence[Route]) -> Unfit | None:
            self._watchdog.heartbeat("tries routes", plan_seconds(index_routes(routes).predicates))
            return attempt(self._spark, routes)

        def live(generation: Generation) -> None:
            announcements.live(generation)
            self._ready.set()

        announcements = Announcements(reporter, self._status)
        transit = metrics.ROUTER_TRANSIT.bind()
        sender = MarkerSender(MarkerWriter(self._settings))
        watch = MarkerWatch(self._settings.router_marker_seconds, timed=lambda ms: transit.observe(ms / 1000))
        return Generations(
            start,
            tail,
            sender,
            watch,
            Unplannable(probe),
            live=live,
            lost=announcements.lost,
            served=served,
            fencing=fencing,
            stopping=self._stop.is_set,
            check_slots=self._check_slots,
            heartbeat=self._watchdog.heartbeat,
            log_id=self._log_id,
        )

    def _log_id(self) -> str:
        self._watchdog.heartbeat("asks for the topic of the events")
        try:
            return TopicAdmin(self._settings).ids([topics.EVENTS], KAFKA_SECONDS)[topics.EVENTS]
        except NotDone as error:
            raise KafkaAway(str(error)) from error

    def _turn(self, generations: Generations, follower: SnapshotFollower) -> None:
        """Checks once everything that may need to be done."""
        self._watchdog.heartbeat()
        try:
            live = generations.live
            if live is not None and not live.query.alive():
                self._died(live)
                self._advance(generations, follower.snapshot)
            elif not generations.acts_by(follower.snapshot):
                self._coalesce(first=live is None)
                self._advance(generations, follower.snapshot)
            generations.watch_markers()
            self._observe(generations)
        except KafkaAway as error:
            if not self._status.get("waiting_for_kafka"):
                log.warning("Kafka is unreachable; the router waits for it", error=describe(error))
            self._status["waiting_for_kafka"] = True
            generations.watch.reset(generations.clock())
            self._stop.wait(1.0)
            return
        if self._status.pop("waiting_for_kafka", False):
            log.info("Kafka is reachable again")
        if generations.watch.pending is None:
            self._changed.wait(LOOK_SECONDS)
            self._changed.clear()

    def _check_slots(self, partitions: int, beside: bool) -> None:
        """Raises TooFewSlots if Spark has no slots for another query: Spark itself would wait without an error."""
        short = watchdogs.shortage(self._settings, partitions, watchdogs.count_slots(self._spark), beside=beside)
        if short is not None:
            raise TooFewSlots(short)

    def _short_of_slots(self, problem: str) -> None:
        """Reports the problem and keeps what runs: executors may be added at any time."""
        if self._status.get("problem") != problem:
            log.error("Spark has too few task slots", problem=problem)
        self._status["problem"] = problem
        self._reporter.waiting(problem)
        self._stop.wait(LOOK_SECONDS)

    def _coalesce(self, first: bool) -> None:
        """Waits a moment, so that changes that are made together share one switch."""
        if not first:
            self._stop.wait(self._settings.router_coalesce_ms / 1000)

    def _died(self, generation: Generation) -> None:
        """Handles the end of a live query. If queries fail repeatedly, there is a pause before the next one."""
        if self._newest_dead == generation.number:
            return
        self._newest_dead = generation.number
        self._check_spark()
        reason = generation.query.reason()
        log.error("the query ended; starting another one", generation=generation.number, reason=reason)
        self._failed_again(f"the query of generation {generation.number} ended: {reason}")

    def _check_spark(self) -> None:
        """Raises SparkGone if Spark has ended: no query can start in this process any more."""
        try:
            gone = bool(self._spark.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError) as error:
            raise SparkGone(f"Spark's process does not respond any more: {error}") from error
        if gone:
            raise SparkGone("Spark was stopped")

    def _failed_again(self, reason: str, *, serving: bool = False) -> None:
        """Waits longer each time, and fails after a number of times unless events are routed anyway."""
        self._failures += 1
        if self._failures >= MAX_FAILURES and not serving:
            raise GenerationFailed(f"{reason}. It was attempt {self._failures}; the router stops trying")
        self._stop.wait(pause_after(self._failures, *RETRY_SECONDS))

    def _advance(self, generations: Generations, snapshot: Snapshot) -> None:
        before = generations.live
        try:
            generations.advance(snapshot)
            if self._status.pop("problem", None):
                log.info("Spark has enough task slots")
            self._reporter.waiting("")
        except TooFewSlots as error:
            self._short_of_slots(str(error))
        except (KafkaAway, Stopping, CannotStop, RouterSuperseded, StoppedWaiting, AnotherLog):
            raise
        except Exception as error:  # Spark's, py4j's or a defect of ours: the next generation may work
            self._check_spark()
            serving = generations.live is not None and generations.live.query.alive()
            log.error("a generation could not start", version=snapshot.version, serving=serving, error=describe(error))
            if isinstance(error, StandsStill) and self._failures and not serving:
                raise  # another query did not help
            if generations.examine(snapshot):
                return  # the next start leaves out the routes that were found
            self._failed_again(f"a generation could not start: {error}", serving=serving)
        if generations.live is not before:
            self._live_since = time.monotonic()

    def _observe(self, generations: Generations) -> None:
        """Updates the status, and acts if partitions stand still."""
        watch = generations.watch
        alive = generations.live is not None and generations.live.number != self._newest_dead
        lived = alive and time.monotonic() - self._live_since > STEADY_SECONDS
        if lived:
            self._failures = 0
        late = {} if watch.pending is None else watch.late(generations.clock())
        stalled = {partition: waited for partition, waited in late.items() if waited > ALARM_SECONDS}
        if stalled and not self._status.get("stalled_seconds"):
            log.error("routing stands still: a marker does not come out", partitions=sorted(stalled))
        metrics.ROUTER_MARKERS_OVERDUE.bind().set(len(stalled))
        self._status.update(
            marker_transit_ms=watch.transit_ms,
            stalled_seconds=round(max(stalled.values(), default=0.0), 1),
            lag=watch.lag,
        )
        match self._stall_guard.evaluate(late, steady=lived and watch.pending is None):
            case StallVerdict.REPLACE:
                log.error("the query stands still and is replaced", partitions=sorted(stalled))
                generations.replace()
            case StallVerdict.END:
                raise GenerationFailed(f"partitions {sorted(stalled)} stand still, and another query did not help")


def plan_seconds(predicates: Sequence[Predicate]) -> float:
    """How long Spark may take to plan a query with these expressions."""
    return PLAN_SECONDS + PLAN_SECONDS_PER_TERM * sum(map(count_terms, predicates))
