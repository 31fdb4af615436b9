"""What deliveries report: metrics, records of `penstock.attempts`, log lines, losses, spans, and route health."""

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
"""Unwritten records of attempts at which no further attempt starts: Kafka is unreachable."""


class Telemetry:
    """Updates the metrics and the health of routes, and adds records of attempts to the next flush."""

    def __init__(self, changes: Mapping[int, Unflushed], reporter: Reporter) -> None:
        self._unflushed, self._reporter = changes, reporter
        self._health = TaskRouteHealth(reporter.instance, reporter.standing)
        self._metrics: dict[str, RouteMetrics] = {}
        self._shown: set[str] = set()
        self._tails: dict[int, int | None] = {}
        """How far the tails had read when the gauges were last set."""
        self._warned: dict[str, float] = {}
        """When a warning was last logged, by route: responses whose bodies are not used."""
        self._unwritten = 0

    def metrics(self, route: Route) -> RouteMetrics:
        """The metrics of a route, created with its first delivery: most of ten thousand routes never have one."""
        metrics = self._metrics.get(route.uid)
        if metrics is None:
            metrics = self._metrics[route.uid] = RouteMetrics(route.kind, route.namespace, route.name)
        return metrics

    def forget(self, uid: str) -> None:
        """The route is gone."""
        self._warned.pop(uid, None)
        if self._health.forget(uid):
            self._reporter.no_standing(uid)
        metrics = self._metrics.pop(uid, None)
        if metrics is not None:
            metrics.forget()

    def shut_out(self, record: Matched, fence: int) -> Matched:
        """Ignores a record of a fenced router generation.

        Logs that once a minute, and reports it to the pipeline, which knows whether the generation was replaced.
        """
        SHUT_OUT.bind().inc()
        now = time.monotonic()
        if now - self._warned.get(SHUT_OUT.name, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[SHUT_OUT.name] = now
            log.warning(
                "ignoring records of a fenced router generation",
                partition=record.partition,
                offset=record.offset,
                generation=record.header(records.GENERATION),
                fence=fence,
            )
            self._reporter.shut_out(record.partition, int(record.header(records.GENERATION) or 0), fence)
        return record.without_routes()

    # --- attempts ------------------------------------------------------------------------------------------------

    def count(self, job: Job, report: AttemptResult, step: Step, now: float, wall: float) -> None:
        """An attempt has ended, with this next step."""
        metrics = self.metrics(job.lane.route)
        stage, verdict = job.delivery.stage, report.verdict
        self._health.attempted(job.lane.route.uid, stage, report, step, wall)
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
        """No attempt can be made in this stage."""
        if (endpoint := destination(route, stage)) is not None:
            self._health.withheld(route.uid, endpoint.shown, problem, wall)

    def released(self, route: Route) -> None:
        """What was missing is available again."""
        self._health.released(route.uid)

    def _warn_of_body(self, route: Route, status: int | None, now: float) -> None:
        """Warns once a minute for each route: a subscriber that responds `200 ok` does so to every event."""
        last = self._warned.get(route.uid)
        if last is None or now - last >= WARN_SECONDS:
            self._warned[route.uid] = now
            log.warning(
                "the body of a response was ignored; penstock_response_bodies_discarded_total counts the others",
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
        """Adds the record of the attempt to the next flush."""
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
        """The same for a partition that cannot be written, which has no more than its share."""
        return len(self._unflushed[partition].attempts) < UNWRITTEN_LIMIT // len(self._unflushed)

    def collected(self, partition: int) -> None:
        """The records of a partition so far are being written."""
        self._unwritten -= len(self._unflushed[partition].attempts)

    # --- failures ------------------------------------------------------------------------------------------------

    def dropped(self, job: Job, record: Matched, reason: str) -> None:
        """The event was dropped."""
        log.error(
            "an event was dropped: no attempt succeeded and no dead letter sink took it",
            **_names(job.lane.route),
            event_id=record.identity[0],
            reason=reason,
        )

    def lost(self, losses: Iterable[LostOrigins], partition: int, lanes: Mapping[str, Lane]) -> None:
        """Events were removed by retention before routes got them."""
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

    # --- health --------------------------------------------------------------------------------------------------

    def set_gauges(
        self,
        partitions: Collection[PartitionCursors],
        ends: Mapping[int, int],
        lanes: Mapping[str, Lane],
        now: float,
        forecasts: Mapping[int, Forecast],
    ) -> None:
        """Sets the gauges of routes with a backlog, and of those whose backlog has just ended.

        Records that the tail has not read yet may be for any route. While the tail moves they are counted for busy
        routes only; where it makes no progress, every route lags by that much.
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
        self._shown = {uid for uid, waiting in busy.items() if waiting or stuck}
        for uid, waiting in busy.items():
            if uid in lanes:
                beyond = sum(unread.values()) if waiting or stuck else 0
                self._set_gauges_of(lanes[uid], waiting, beyond, now, expiring=uid in expiring)
        self._health.report(now)

    def _set_gauges_of(self, lane: Lane, cursors: list[Cursor], beyond: int, now: float, *, expiring: bool) -> None:
        metrics = self.metrics(lane.route)
        oldest = [waiting[1] for cursor in cursors if (waiting := cursor.waiting) is not None and waiting[1]]
        count = sum(len(cursor.outstanding) for cursor in cursors)
        lag, accepted = count + sum(cursor.behind for cursor in cursors) + beyond, min(oldest, default=0) / 1000
        self._health.measured(lane.route.uid, lag, count, accepted, expiring=expiring)
        metrics.expiring.set(expiring)
        metrics.outstanding.set(count)
        metrics.lag.set(lag)
        metrics.oldest.set(max(0.0, now - accepted) if accepted else 0.0)
        metrics.detached.set(sum(not cursor.attached for cursor in cursors))
        metrics.unreachable.set(lane.unreachable)


def _will_lose(cursor: Cursor, forecast: Forecast) -> bool:
    """Whether retention will soon remove events that the route still has to get. Replays take what there is."""
    waiting = cursor.waiting
    return waiting is not None and cursor.counts is None and forecast.is_near(waiting[0])


def _unread(cursors: PartitionCursors, ends: Mapping[int, int]) -> int:
    """Records that Kafka has and the tail has not read."""
    return max(0, ends.get(cursors.partition, 0) - (cursors.tail or 0))


def _recorded_as(route: Route) -> tuple[str, str]:
    """uid and kind that an attempt counts for. Past events of a Trigger count for it, so that they can be redriven."""
    if route.replay is not None and route.replay.past_of is not None:
        return route.replay.past_of, route.role
    return route.uid, route.kind


def _names(route: Route) -> dict[str, str]:
    return {"kind": route.kind, "namespace": route.namespace, "name": route.name}
