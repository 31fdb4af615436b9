"""How the deliveries of each route go, for the control plane: what failed last and since when, and how much waits.

An attempt costs an entry in a dictionary. Once a second what has changed is told, what is new first: a run of failures,
its end, an event that was dropped or went to the dead letter sink. Numbers that move all the time are told every few
seconds, and less often where many routes are busy, since a task tells of so many routes a second and no more.
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
"""How long the numbers of a route stay untold at least, once they were told."""
ROUTES_PER_SECOND = 100
RUN_SECONDS = 1.0
"""A single failure counts as a run of failures when nothing has succeeded for so long."""


class RouteHealth:
    """One route in this task. Times are those of the wall clock; 0: never."""

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
        "since",
        "status",
        "succeeded",
        "told",
        "told_at",
        "url",
    )

    def __init__(self) -> None:
        self.lag = self.outstanding = self.failures = self.dropped = self.dead_lettered = 0
        self.oldest = self.succeeded = self.since = self.failed_at = self.due = self.told_at = 0.0
        self.status: int | None = None
        self.reason = self.url = ""
        self.cause = FailureCause.DELIVERY_FAILED
        self.expiring = False
        self.told: Standing | None = None

    def failed(self, result: AttemptResult, step: Step, now: float) -> bool:
        """An attempt came to nothing; whether that is more than one failure more."""
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
        """No attempt can be made, and none is counted; whether that is new."""
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
        """What is to be told. Failures that have just begun may be over at once: they are not told yet."""
        fails = self.failures > 1 or (self.failures == 1 and now - self.since >= RUN_SECONDS)
        told = Standing(
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
            return told
        return msgspec.structs.replace(
            told,
            failures=self.failures,
            since=self.since,
            failed=self.failed_at,
            due=self.due,
            status=self.status,
            reason=self.reason,
            cause=self.cause,
        )


class TaskRouteHealth:
    """All routes of a task that have had an attempt or have something waiting."""

    def __init__(self, instance: str, tell: Callable[[Standing], None]) -> None:
        self._instance, self._tell = instance, tell
        self._routes: dict[str, RouteHealth] = {}
        self._urgent: dict[str, None] = {}
        """Routes with something that a person would want to know at once."""
        self._stirred: dict[str, None] = {}
        """Routes whose numbers may be others now, those that wait longest first."""

    def attempted(self, route: str, stage: Stage, result: AttemptResult, step: Step, now: float) -> None:
        """An attempt is over, and this follows."""
        standing = self._routes.get(route)
        if standing is None:
            standing = self._routes[route] = RouteHealth()
        if result.verdict.outcome is not Outcome.DELIVERED:
            if standing.failed(result, step, now):
                self._urgent[route] = None
        elif stage is Stage.DEAD_LETTER:
            standing.dead_lettered += 1
            self._urgent[route] = None
        elif isinstance(step, Done):
            standing.succeeded = now
            if standing.failures:
                standing.failures = 0
                self._urgent[route] = None
        self._stirred[route] = None

    def withheld(self, route: str, url: str, problem: Withheld, now: float) -> None:
        """No attempt could be made, because something on this side is missing."""
        standing = self._routes.get(route)
        if standing is None:
            standing = self._routes[route] = RouteHealth()
        if standing.withheld(problem, url, now):
            self._urgent[route] = None
        self._stirred[route] = None

    def released(self, route: str) -> None:
        """What kept the route from any attempt is over; nothing is known of how attempts go."""
        standing = self._routes.get(route)
        if standing is not None and standing.failures:
            standing.failures = 0
            self._urgent[route] = None
            self._stirred[route] = None

    def measured(self, route: str, lag: int, outstanding: int, oldest: float, *, expiring: bool = False) -> None:
        """So much waits for the route; `oldest` is when the first of it was accepted."""
        standing = self._routes.get(route)
        if standing is None:
            standing = self._routes[route] = RouteHealth()
        if standing.expiring != expiring:
            standing.expiring = expiring
            self._urgent[route] = None
        if (standing.lag, standing.outstanding, standing.oldest) != (lag, outstanding, oldest):
            standing.lag, standing.outstanding, standing.oldest = lag, outstanding, oldest
            self._stirred[route] = None

    def forget(self, route: str) -> bool:
        """The route is gone; whether anything was told of it."""
        self._urgent.pop(route, None)
        self._stirred.pop(route, None)
        standing = self._routes.pop(route, None)
        return standing is not None and standing.told is not None

    def report(self, now: float) -> None:
        """To be called once a second."""
        left = ROUTES_PER_SECOND - self._report_urgent(now)
        for route in list(islice(self._stirred, 2 * ROUTES_PER_SECOND)):
            if left <= 0:
                return
            del self._stirred[route]
            standing = self._routes[route]
            if now - standing.told_at < NUMBERS_SECONDS:
                self._stirred[route] = None
            elif _differs(standing.told, news := standing.report(route, self._instance, now)):
                self._say(standing, news)
                left -= 1

    def _report_urgent(self, now: float) -> int:
        told = 0
        for route in list(self._urgent):
            if told >= ROUTES_PER_SECOND:
                break
            standing = self._routes[route]
            news = standing.report(route, self._instance, now)
            if _is_urgent(standing.told, news):
                self._say(standing, news)
                self._stirred.pop(route, None)
                told += 1
            if not standing.failures or news.failures:
                del self._urgent[route]
        return told

    def _say(self, standing: RouteHealth, news: Standing) -> None:
        standing.told, standing.told_at = news, news.at
        self._tell(news)


def _is_urgent(told: Standing | None, news: Standing) -> bool:
    """Whether there is more to tell than numbers."""
    if told is None:
        return bool(news.failures or news.dropped or news.dead_lettered or news.expiring)
    if told.expiring != news.expiring:
        return True
    if (told.dropped, told.dead_lettered) != (news.dropped, news.dead_lettered):
        return True
    if bool(told.failures) != bool(news.failures):
        return True
    return bool(news.failures) and (told.status, told.reason, told.url) != (news.status, news.reason, news.url)


def _differs(told: Standing | None, news: Standing) -> bool:
    return told is None or _numbers(told) != _numbers(news)


def _numbers(standing: Standing) -> tuple[object, ...]:
    return (standing.lag, standing.outstanding, standing.oldest, standing.succeeded, standing.failures, standing.due)
