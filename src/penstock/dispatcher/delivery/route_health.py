"""The health of each route, reported to the control plane: the last failure and since when there are any, and the
backlog.

An attempt costs an entry in a dictionary. Changes are reported once a second, the important ones first: a run of
failures, its end, an event that was dropped or dead-lettered. Numbers that change all the time are reported every few
seconds, and less often if many routes are busy: the number of routes that a task reports per second is limited.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.attempt import AttemptResult
from penstock.dispatcher.delivery.decision import Done, Dropped, Retry, Step
from penstock.dispatcher.http.outcome import Outcome, Withheld

NUMBERS_SECONDS = 5.0
"""Minimum time between two reports of a route that differ in numbers only."""
ROUTES_PER_SECOND = 100
RUN_SECONDS = 1.0
"""A single failure counts as a run of failures when nothing has succeeded for so long."""


class RouteHealth:
    """The health of one route in this task. Times are those of the wall clock; 0: never."""

    __slots__ = (
        "cause",
        "dead_lettered",
        "dropped",
        "due",
        "expiring",
        "failed_at",
        "failures",
        "lag",
        "oldest",
        "outstanding",
        "reason",
        "reported",
        "reported_at",
        "since",
        "status",
        "succeeded",
        "url",
    )

    def __init__(self) -> None:
        self.lag = self.outstanding = self.failures = self.dropped = self.dead_lettered = 0
        self.oldest = self.succeeded = self.since = self.failed_at = self.due = self.reported_at = 0.0
        self.status: int | None = None
        self.reason = self.url = ""
        self.cause = FailureCause.DELIVERY_FAILED
        self.expiring = False
        self.reported: Standing | None = None

    def failed(self, result: AttemptResult, step: Step, now: float) -> bool:
        """An attempt failed; whether that is worth reporting at once."""
        if not self.failures:
            self.since = now
        self.failures += 1
        is_other = self._note(result.verdict.status, result.verdict.reason, result.verdict.cause, result.url, now)
        self.due = step.at if isinstance(step, Retry) else 0.0
        if isinstance(step, Dropped):
            self.dropped += 1
            return True
        return self.failures <= 2 or is_other

    def withheld(self, problem: Withheld, url: str, now: float) -> bool:
        """No attempt can be made, and none is counted; returns whether that is new."""
        begins = not self.failures
        if begins:
            self.failures, self.since = 1, now
        self.due = 0.0
        return self._note(None, str(problem), problem.cause, url, now) or begins

    def _note(self, status: int | None, reason: str, cause: FailureCause, url: str, now: float) -> bool:
        before = self.status, self.reason, self.url
        self.status, self.reason, self.cause, self.url, self.failed_at = status, reason, cause, url, now
        return before != (status, reason, url)

    def report(self, route: str, instance: str, now: float) -> Standing:
        """What to report. Failures that have just begun may be over at once, and are left out."""
        fails = self.failures > 1 or (self.failures == 1 and now - self.since >= RUN_SECONDS)
        report = Standing(
            route,
            instance,
            now,
            self.lag,
            self.outstanding,
            self.oldest,
            self.succeeded,
            url=self.url,
            dropped=self.dropped,
            dead_lettered=self.dead_lettered,
            expiring=self.expiring,
        )
        if not fails:
            return report
        return msgspec.structs.replace(
            report,
            failures=self.failures,
            since=self.since,
            failed=self.failed_at,
            due=self.due,
            status=self.status,
            reason=self.reason,
            cause=self.cause,
        )


class TaskRouteHealth:
    """All routes of a task that have had an attempt or have a backlog."""

    def __init__(self, instance: str, send: Callable[[Standing], None]) -> None:
        self._instance, self._send = instance, send
        self._routes: dict[str, RouteHealth] = {}
        self._urgent: dict[str, None] = {}
        """Routes with an important change, to be reported at once."""
        self._changed: dict[str, None] = {}
        """Routes whose numbers may have changed, those that wait longest first."""

    def attempted(self, route: str, stage: Stage, result: AttemptResult, step: Step, now: float) -> None:
        """An attempt has ended, with this next step."""
        health = self._routes.get(route)
        if health is None:
            health = self._routes[route] = RouteHealth()
        if result.verdict.outcome is not Outcome.DELIVERED:
            if health.failed(result, step, now):
                self._urgent[route] = None
        elif stage is Stage.DEAD_LETTER:
            health.dead_lettered += 1
            self._urgent[route] = None
        elif isinstance(step, Done):
            health.succeeded = now
            if health.failures:
                health.failures = 0
                self._urgent[route] = None
        self._changed[route] = None

    def withheld(self, route: str, url: str, problem: Withheld, now: float) -> None:
        """No attempt could be made, because something on this side is missing."""
        health = self._routes.get(route)
        if health is None:
            health = self._routes[route] = RouteHealth()
        if health.withheld(problem, url, now):
            self._urgent[route] = None
        self._changed[route] = None

    def released(self, route: str) -> None:
        """Attempts can be made again; their outcome is not known yet."""
        health = self._routes.get(route)
        if health is not None and health.failures:
            health.failures = 0
            self._urgent[route] = None
            self._changed[route] = None

    def measured(self, route: str, lag: int, outstanding: int, oldest: float, *, expiring: bool = False) -> None:
        """The backlog of the route; `oldest` is when its first event was accepted."""
        health = self._routes.get(route)
        if health is None:
            health = self._routes[route] = RouteHealth()
        if health.expiring != expiring:
            health.expiring = expiring
            self._urgent[route] = None
        if (health.lag, health.outstanding, health.oldest) != (lag, outstanding, oldest):
            health.lag, health.outstanding, health.oldest = lag, outstanding, oldest
            self._changed[route] = None

    def forget(self, route: str) -> bool:
        """The route is gone; returns whether anything was reported of it."""
        self._urgent.pop(route, None)
        self._changed.pop(route, None)
        health = self._routes.pop(route, None)
        return health is not None and health.reported is not None

    def report(self, now: float) -> None:
        """To be called once a second."""
        left = ROUTES_PER_SECOND - self._report_urgent(now)
        for route in list(islice(self._changed, 2 * ROUTES_PER_SECOND)):
            if left <= 0:
                return
            del self._changed[route]
            health = self._routes[route]
            if now - health.reported_at < NUMBERS_SECONDS:
                self._changed[route] = None
            elif _differs(health.reported, news := health.report(route, self._instance, now)):
                self._report(health, news)
                left -= 1

    def _report_urgent(self, now: float) -> int:
        sent = 0
        for route in list(self._urgent):
            if sent >= ROUTES_PER_SECOND:
                break
            health = self._routes[route]
            news = health.report(route, self._instance, now)
            if _is_urgent(health.reported, news):
                self._report(health, news)
                self._changed.pop(route, None)
                sent += 1
            if not health.failures or news.failures:
                del self._urgent[route]
        return sent

    def _report(self, health: RouteHealth, news: Standing) -> None:
        health.reported, health.reported_at = news, news.at
        self._send(news)


def _is_urgent(reported: Standing | None, news: Standing) -> bool:
    """Whether more than numbers has changed."""
    if reported is None:
        return bool(news.failures or news.dropped or news.dead_lettered or news.expiring)
    if reported.expiring != news.expiring:
        return True
    if (reported.dropped, reported.dead_lettered) != (news.dropped, news.dead_lettered):
        return True
    if bool(reported.failures) != bool(news.failures):
        return True
    return bool(news.failures) and (reported.status, reported.reason, reported.url) != (
        news.status,
        news.reason,
        news.url,
    )


def _differs(reported: Standing | None, news: Standing) -> bool:
    return reported is None or _numbers(reported) != _numbers(news)


def _numbers(health: Standing) -> tuple[object, ...]:
    return (health.lag, health.outstanding, health.oldest, health.succeeded, health.failures, health.due)
