"""What is told of deliveries: metrics, the records of `penstock.attempts`, log lines, losses, how routes stand."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

import structlog

from penstock.contract import records
from penstock.contract.attempts import AttemptRecord, Result
from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import STAGE_NAMES, Cursor, Stage
from penstock.dispatcher.cursors.flusher import Unflushed
from penstock.dispatcher.cursors.partition import LostOrigins, PartitionCursors
from penstock.dispatcher.delivery.attempt import AttemptResult
from penstock.dispatcher.delivery.decision import Dropped, Step, destination
from penstock.dispatcher.delivery.retention import Forecast
from penstock.dispatcher.delivery.route_health import TaskRouteHealth
from penstock.dispatcher.http.outcome import Outcome, Withheld
from penstock.dispatcher.lanes import Job, Lane
from penstock.dispatcher.matched_record import Matched
from penstock.kafka.reports import Reporter
from penstock.observability.metrics import SHUT_OUT, RouteMetrics

log = structlog.get_logger()

OUTCOMES = {Outcome.DELIVERED: "success", Outcome.RETRYABLE: "retryable", Outcome.REFUSED: "final"}
WARN_SECONDS = 60.0
UNWRITTEN_LIMIT = 50_000
"""Records of attempts not yet written at which no further attempt starts: Kafka is away."""


class Telemetry:
    """Keeps the metrics of routes and hands records of attempts to what is written next."""

    def __init__(self, changes: Mapping[int, Unflushed], reporter: Reporter) -> None:
        self._unflushed, self._reporter = changes, reporter
        self._standings = TaskRouteHealth(reporter.instance, reporter.standing)
        self._metrics: dict[str, RouteMetrics] = {}
        self._shown: set[str] = set()
        self._tails: dict[int, int | None] = {}
        """How far the tails had read when the gauges were set last."""
        self._warned: dict[str, float] = {}
        """Routes whose answers have bodies that are not used, and when that was logged last."""
        self._unwritten = 0

    def metrics(self, route: Route) -> RouteMetrics:
        """Bound when the route has its first delivery: most of ten thousand routes never have one."""
        metrics = self._metrics.get(route.uid)
        if metrics is None:
            metrics = self._metrics[route.uid] = RouteMetrics(route.kind, route.namespace, route.name)
        return metrics

    def forget(self, uid: str) -> None:
        """The route is gone."""
        self._warned.pop(uid, None)
        if self._standings.forget(uid):
            self._reporter.no_standing(uid)
        metrics = self._metrics.pop(uid, None)
        if metrics is not None:
            metrics.forget()

    def shut_out(self, record: Matched, fence: int) -> Matched:
        """A task of the router that was replaced has written: the record is for nobody. Told once a minute, also to the
        pipeline, which knows whether the generation was replaced."""
        SHUT_OUT.bind().inc()
        now = time.monotonic()
        if now - self._warned.get(SHUT_OUT.name, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[SHUT_OUT.name] = now
            log.warning(
                "a generation of the router that was replaced still writes; it counts for nobody",
                partition=record.partition,
                offset=record.offset,
                generation=record.header(records.GENERATION),
                fence=fence,
            )
            self._reporter.shut_out(record.partition, int(record.header(records.GENERATION) or 0), fence)
        return record.for_nobody()

    # --- attempts ------------------------------------------------------------------------------------------------

    def count(self, job: Job, report: AttemptResult, step: Step, now: float, wall: float) -> None:
        """An attempt is over, and this follows."""
        metrics = self.metrics(job.lane.route)
        stage, verdict = job.delivery.stage, report.verdict
        self._standings.attempted(job.lane.route.uid, stage, report, step, wall)
        metrics.attempt(STAGE_NAMES[stage], OUTCOMES[verdict.outcome], verdict.status or 0, report.latency)
        if job.delivery.attempt > 1:
            metrics.retries.inc()
        if verdict.outcome is Outcome.DELIVERED:
            if stage is Stage.SUBSCRIBER:
                metrics.delivered.inc()
            elif stage is Stage.DEAD_LETTER:
                metrics.dead_lettered.inc()
            if report.stored or stage is Stage.REPLY:
                metrics.replies.inc()
            if report.discarded:
                metrics.discarded_bodies.inc()
                self._warn_of_body(job.lane.route, verdict.status, now)
        if isinstance(step, Dropped):
            metrics.dropped.inc()

    def withheld(self, route: Route, stage: Stage, problem: Withheld, wall: float) -> None:
        """The route may attempt nothing in this stage."""
        if (endpoint := destination(route, stage)) is not None:
            self._standings.withheld(route.uid, endpoint.shown, problem, wall)

    def released(self, route: Route) -> None:
        """What was missing is here."""
        self._standings.released(route.uid)

    def _warn_of_body(self, route: Route, status: int | None, now: float) -> None:
        """Once a minute for each route, for a subscriber that answers `200 ok` does so to every event."""
        last = self._warned.get(route.uid)
        if last is None or now - last >= WARN_SECONDS:
            self._warned[route.uid] = now
            log.warning(
                "an answer's body was not used; penstock_response_bodies_discarded_total counts the others",
                **_names(route),
                status=status,
            )

    def write(
        self,
        job: Job,
        record: Matched,
        report: AttemptResult,
        begun: float,
        *,
        result: Result,
        due: float | None = None,
    ) -> None:
        """Keeps the record of the attempt for the next flush."""
        delivery, route = job.delivery, job.lane.route
        uid, kind = _recorded_as(route)
        self._unwritten += 1
        self._unflushed[job.partition].attempts.append(
            AttemptRecord(
                begun,
                uid,
                job.partition,
                delivery.origin,
                *record.identity,
                STAGE_NAMES[delivery.stage],
                delivery.attempt,
                report.url,
                result,
                report.latency,
                report.verdict.status,
                due,
                report.verdict.reason or None,
                kind,
                route.namespace,
                route.name,
            )
        )

    def has_capacity(self) -> bool:
        """Whether the record of another attempt can wait to be written."""
        return self._unwritten < UNWRITTEN_LIMIT

    def has_share(self, partition: int) -> bool:
        """Whether it can in a partition that has no more room than its share, because it cannot be written."""
        return len(self._unflushed[partition].attempts) < UNWRITTEN_LIMIT // len(self._unflushed)

    def collected(self, partition: int) -> None:
        """The records of a partition so far are being written."""
        self._unwritten -= len(self._unflushed[partition].attempts)

    # --- what went wrong -----------------------------------------------------------------------------------------

    def dropped(self, job: Job, record: Matched, reason: str) -> None:
        """Nobody takes the event."""
        log.error(
            "an event was dropped: no attempt succeeded and no dead letter sink took it",
            **_names(job.lane.route),
            event_id=record.identity[0],
            reason=reason,
        )

    def lost(self, losses: Iterable[LostOrigins], partition: int, lanes: Mapping[str, Lane]) -> None:
        """Retention has removed events before routes got them."""
        for lost in losses:
            self._reporter.loss(lost.route, partition, lost.first, lost.last)
            if (lane := lanes.get(lost.route)) is not None:
                self.metrics(lane.route).lost.inc(lost.last - lost.first + 1)
            log.error(
                "events were removed by retention before a route got them",
                route=lost.route,
                partition=partition,
                first=lost.first,
                last=lost.last,
            )

    # --- how it stands -------------------------------------------------------------------------------------------

    def set_gauges(
        self,
        partitions: Collection[PartitionCursors],
        ends: Mapping[int, int],
        lanes: Mapping[str, Lane],
        now: float,
        forecasts: Mapping[int, Forecast],
    ) -> None:
        """For routes that have something to show, and once more for those that no longer have.

        What Kafka has beyond what the tail has read may be for any route. While the tail moves that is on its way, and
        only told of routes that are busy anyway; where it stands still, every route is behind by that much.
        """
        unread = {cursors.partition: _unread(cursors, ends) for cursors in partitions}
        stuck = any(unread[c.partition] and self._tails.get(c.partition, -1) == c.tail for c in partitions)
        self._tails = {cursors.partition: cursors.tail for cursors in partitions}
        busy: dict[str, list[Cursor]] = {uid: [] for uid in (lanes if stuck else self._shown)}
        expiring: set[str] = set()
        for cursors in partitions:
            forecast = forecasts.get(cursors.partition)
            for uid, cursor in cursors.cursors.items():
                if uid in lanes and (cursor.outstanding or not cursor.attached):
                    busy.setdefault(uid, []).append(cursor)
                    if forecast is not None and _will_lose(cursor, forecast):
                        expiring.add(uid)
        self._shown = {uid for uid, standing in busy.items() if standing or stuck}
        for uid, standing in busy.items():
            if uid in lanes:
                beyond = sum(unread.values()) if standing or stuck else 0
                self._set_gauges_of(lanes[uid], standing, beyond, now, expiring=uid in expiring)
        self._standings.report(now)

    def _set_gauges_of(self, lane: Lane, standing: list[Cursor], beyond: int, now: float, *, expiring: bool) -> None:
        metrics = self.metrics(lane.route)
        oldest = [waiting[1] for cursor in standing if (waiting := cursor.waiting) is not None and waiting[1]]
        count = sum(len(cursor.outstanding) for cursor in standing)
        lag, accepted = count + sum(cursor.behind for cursor in standing) + beyond, min(oldest, default=0) / 1000
        self._standings.measured(lane.route.uid, lag, count, accepted, expiring=expiring)
        metrics.expiring.set(expiring)
        metrics.outstanding.set(count)
        metrics.lag.set(lag)
        metrics.oldest.set(max(0.0, now - accepted) if accepted else 0.0)
        metrics.detached.set(sum(not cursor.attached for cursor in standing))
        metrics.unreachable.set(lane.unreachable)


def _will_lose(cursor: Cursor, forecast: Forecast) -> bool:
    """Whether retention will soon remove what the route still has to get. A Replay takes what there is."""
    waiting = cursor.waiting
    return waiting is not None and cursor.counts is None and forecast.is_near(waiting[0])


def _unread(cursors: PartitionCursors, ends: Mapping[int, int]) -> int:
    """Records that Kafka has and the tail has not read."""
    return max(0, ends.get(cursors.partition, 0) - (cursors.tail or 0))


def _recorded_as(route: Route) -> tuple[str, str]:
    """uid and kind that an attempt counts for: a Trigger's past is the Trigger's, so that redriving it finds it."""
    if route.replay is not None and route.replay.past_of is not None:
        return route.replay.past_of, route.role
    return route.uid, route.kind


def _names(route: Route) -> dict[str, str]:
    return {"kind": route.kind, "namespace": route.namespace, "name": route.name}
