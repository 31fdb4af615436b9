"""The health of routes, as the dispatcher's tasks report it: when it is written to a status, and when to an Event.

A status is written at once when deliveries begin to fail, fail for another reason, or succeed again. Numbers are
written after some seconds where they matter, because the route fails or is far behind, and otherwise after a minute.
Statuses and Events are rate-limited over all routes. Failures and recoveries have priority; numbers wait, and dropped
and dead-lettered events are counted until an Event may be recorded.

`Announcer` shows such Events to users: as Events of the Trigger or Subscription, in the log, and on the terminal.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import structlog

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing
from penstock.contract.routes import Route
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.tracker import Tracker
from penstock.kube.kinds import SUBSCRIPTION, TRIGGER, Key
from penstock.resources.delivery_status import DeliveryState, cause
from penstock.runtime.rate_limit import TokenBucket

log = structlog.get_logger()

NUMBERS_SECONDS = 5.0
"""How long the status of a route that fails, or is far behind, stays unchanged at least."""
QUIET_SECONDS = 60.0
"""The same, for a healthy route whose numbers are small."""
STATUSES_PER_SECOND = 8
"""Statuses of all routes in the long run: a write costs 5 ms of a processor, the API's part included."""
BURST = 100
"""Statuses that may be written at once after a quiet time."""
KEPT_FOR_NEWS = 50
"""How many of these are reserved for failures and recoveries."""
EVENTS_PER_SECOND = 2
"""Events of all routes in the long run; as with statuses, BURST of them after a quiet time."""
FRESH_PER_SECOND = 500
WAITING_PER_SECOND = 50
"""How many routes are checked: of those with new reports, and of those that wait."""
REPEAT_SECONDS = 30.0
"""The shortest time between two Events of a route with the same reason; counts are added up in between."""
PAST_SECONDS = 10.0
"""A failure counts no longer if another task has succeeded so long after it."""
SMALL = 16
"""A healthy route with fewer waiting events is busy, not behind. It is still shown when none waits any more."""
LINES, LINES_SECONDS = 8, 10.0
"""A terminal gets so many lines within that time; a thousand routes that fail at once must not hide everything else."""

Reason = Literal["DeliveryFailed", "DeliveryRecovered", "EventsDropped", "EventsDeadLettered"]


@dataclass(frozen=True)
class RouteEvent:
    """A change of a route's health that users should see."""

    route: str
    reason: Reason
    message: str

    @property
    def is_good(self) -> bool:
        """Whether it is good news."""
        return self.reason == "DeliveryRecovered"


@dataclass
class _Route:
    """The reports about a route, what of them its status shows, and which Events were recorded."""

    instances: dict[str, Standing]
    shown: DeliveryState | None = None
    shown_at: float = float("-inf")
    dropped: int = 0
    dead_lettered: int = 0
    """Counted and without an Event yet, as is `dropped`."""
    event_at: dict[Reason, float] = field(default_factory=dict)
    failure_announced: bool = False
    began: DeliveryState | None = None
    """The state at the last `DeliveryFailed`."""

    def has_recovered(self, state: DeliveryState) -> bool:
        """Whether an attempt succeeded since it began to fail. A task that was restarted knows of no failure yet, which
        is not a success."""
        return not state.fails and state.succeeded > (self.began.since if self.began else 0.0)

    def is_settled(self, state: DeliveryState) -> bool:
        """Whether the status shows everything and no Event is due."""
        recovery_due = self.failure_announced and self.has_recovered(state)
        failure_due = state.fails and not self.failure_announced
        return self.shown == state and not (recovery_due or failure_due or self.dropped or self.dead_lettered)


class RouteHealthTracker:
    """The health of all routes that the data plane has reported about."""

    def __init__(self) -> None:
        self._routes: dict[str, _Route] = {}
        self._fresh: dict[str, None] = {}
        """Routes with reports that are not checked yet."""
        self._waiting: dict[str, None] = {}
        """Routes with changes that are not shown yet, those that wait longest first."""
        self._statuses = TokenBucket(STATUSES_PER_SECOND, BURST)
        self._events = TokenBucket(EVENTS_PER_SECOND, BURST)

    def shown(self, route: str) -> DeliveryState | None:
        """What the status says of the route."""
        found = self._routes.get(route)
        return None if found is None else found.shown

    def take(self, report: Standing, *, fresh: bool) -> None:
        """Applies a task's report. One from before this process started (not `fresh`) causes no Event."""
        route = self._routes.setdefault(report.route, _Route({}))
        before = route.instances.get(report.instance)
        route.instances[report.instance] = report
        if fresh:
            route.dropped += _more(before.dropped if before else 0, report.dropped)
            route.dead_lettered += _more(before.dead_lettered if before else 0, report.dead_lettered)
        else:
            known = merged(route.instances.values())
            route.failure_announced, route.began = known.fails, known if known.fails else None
        self._fresh[report.route] = None

    def forget(self, key: str) -> None:
        """Removes a task's report whose key was deleted."""
        _, _, rest = key.partition("/")
        uid, _, instance = rest.partition("/")
        route = self._routes.get(uid)
        if route is not None:
            route.instances.pop(instance, None)
            if not route.instances:
                del self._routes[uid]
                self._fresh.pop(uid, None)
                self._waiting.pop(uid, None)

    def tick(self, now: float, alive: Collection[str] = ()) -> tuple[list[str], list[RouteEvent]]:
        """Called once a second. Returns the routes whose status is to be written, and the Events to record.

        `alive` are the tasks that have reported lately: reports of others are ignored, unless there are none at all.
        """
        events: list[RouteEvent] = []
        chosen: list[str] = []
        checked = dict.fromkeys((*islice(self._fresh, FRESH_PER_SECOND), *islice(self._waiting, WAITING_PER_SECOND)))
        for uid in checked:
            self._fresh.pop(uid, None)
            self._waiting.pop(uid, None)
            route = self._routes[uid]
            state = merged(one for name, one in route.instances.items() if not alive or name in alive)
            events += self._new_events(uid, route, state, now)
            kind = news(route.shown, state, now - route.shown_at)
            if kind != "none" and _take(self._statuses, now, urgent=kind == "urgent"):
                route.shown, route.shown_at = state, now
                chosen.append(uid)
            if not route.is_settled(state):
                self._waiting[uid] = None
        return chosen, events

    def _new_events(self, uid: str, route: _Route, state: DeliveryState, now: float) -> Iterator[RouteEvent]:
        def may(reason: Reason) -> bool:
            if now - route.event_at.get(reason, float("-inf")) < REPEAT_SECONDS:
                return False
            if not _take(self._events, now, urgent=reason in {"DeliveryFailed", "DeliveryRecovered"}):
                return False
            route.event_at[reason] = now
            return True

        if state.fails and not route.failure_announced and may("DeliveryFailed"):
            route.failure_announced, route.began = True, state
            yield RouteEvent(uid, "DeliveryFailed", failure_text(state, now))
        elif route.failure_announced and route.has_recovered(state) and may("DeliveryRecovered"):
            began, route.failure_announced = route.began, False
            yield RouteEvent(uid, "DeliveryRecovered", recovery_text(began, state))
        if route.dropped and may("EventsDropped"):
            count, route.dropped = route.dropped, 0
            yield RouteEvent(uid, "EventsDropped", dropped_text(count, state))
        if route.dead_lettered and may("EventsDeadLettered"):
            count, route.dead_lettered = route.dead_lettered, 0
            yield RouteEvent(uid, "EventsDeadLettered", f"{_events(count)} went to the dead letter sink")


def _take(bucket: TokenBucket, now: float, *, urgent: bool) -> bool:
    return bucket.take(now, reserve=0 if urgent else KEPT_FOR_NEWS)


def merged(reports: Iterable[Standing]) -> DeliveryState:
    """The reports of all tasks of a route taken together. An old failure does not count where others succeed since."""
    every = list(reports)
    succeeded = max((one.succeeded for one in every), default=0.0)
    failing = sorted((one for one in every if one.failures and one.failed > succeeded - PAST_SECONDS), key=_failed_at)
    last = failing[-1] if failing else None
    return DeliveryState(
        lag=sum(one.lag for one in every),
        outstanding=sum(one.outstanding for one in every),
        oldest=min((one.oldest for one in every if one.oldest), default=0.0),
        succeeded=succeeded,
        failures=sum(one.failures for one in failing),
        since=min((one.since for one in failing), default=0.0),
        due=min((one.due for one in failing if one.due), default=0.0),
        status=last.status if last else None,
        reason=last.reason if last else "",
        cause=last.cause if last else FailureCause.DELIVERY_FAILED,
        url=last.url if last else next((one.url for one in every if one.url), ""),
        expiring=any(one.expiring for one in every),
    )


def _failed_at(report: Standing) -> float:
    return report.failed


def news(shown: DeliveryState | None, state: DeliveryState, age: float) -> Literal["urgent", "numbers", "none"]:
    """Whether `state` has news compared to `shown`, which is `age` seconds old."""
    if shown is None:
        return "urgent" if state.fails or state.expiring else "numbers"
    if shown.expiring != state.expiring or shown.fails != state.fails or (state.fails and _why(shown) != _why(state)):
        return "urgent"
    if shown == state:
        return "none"
    pause = NUMBERS_SECONDS if _matters(shown, state) else QUIET_SECONDS
    return "numbers" if age >= pause else "none"


def _matters(shown: DeliveryState, state: DeliveryState) -> bool:
    if state.fails:
        return _moved(shown.lag, state.lag, 1) or _moved(shown.failures, state.failures, 1)
    return _moved(shown.lag, state.lag, SMALL) or (shown.lag > 0 and state.lag == 0)


def _moved(before: int, after: int, small: int) -> bool:
    """Whether a number has changed noticeably: by a tenth, unless both are small."""
    if before < small and after < small:
        return False
    return abs(before - after) * 10 >= max(before, after)


def _why(state: DeliveryState) -> tuple[object, ...]:
    return (*cause(state), state.url)


def _more(before: int, after: int) -> int:
    """By how much a counter has increased; a restarted task counts from 0 again."""
    return after - before if after >= before else after


def failure_text(state: DeliveryState, now: float) -> str:
    """`http://127.0.0.1:9000/ refuses connections; 3 events wait, next try in 2 s`."""
    _, does = cause(state)
    waiting = f"; {_events(state.lag)} wait{'s' if state.lag == 1 else ''}" if state.lag else ""
    ahead = round(state.due - now)
    after = f", next try in {ahead} s" if waiting and state.due and ahead > 0 else ""
    return f"{state.url} {does}{waiting}{after}"


def recovery_text(began: DeliveryState | None, state: DeliveryState) -> str:
    """`http://127.0.0.1:9000/ takes events again after 35 s; 3 events wait`."""
    url = (began.url if began else "") or state.url or "the subscriber"
    seconds = round(state.succeeded - began.since) if began and state.succeeded > began.since else 0
    after = f" after {seconds} s" if seconds > 0 else ""
    waiting = f"; {_events(state.lag)} wait{'s' if state.lag == 1 else ''}" if state.lag else ""
    return f"{url} takes events again{after}{waiting}"


def dropped_text(count: int, state: DeliveryState) -> str:
    """`3 events were dropped: no attempt succeeded at http://127.0.0.1:9000/, and no dead letter sink took them`."""
    return (
        f"{_events(count)} {'was' if count == 1 else 'were'} dropped: no attempt succeeded"
        f"{f' at {state.url}' if state.url else ''}, and no dead letter sink took {'it' if count == 1 else 'them'}"
    )


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


class Announcer:
    """Shows RouteEvents to users: as Events of the object, in the log, and on the terminal."""

    def __init__(
        self,
        tracker: Tracker,
        recorder: EventRecorder,
        print_line: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tracker, self._recorder, self._print_line, self._clock = tracker, recorder, print_line, clock
        self._lines: deque[float] = deque(maxlen=LINES)
        self._omitted = 0

    def __call__(self, route: Route, event: RouteEvent) -> None:
        """Announces the event."""
        kind = TRIGGER if route.kind == "Trigger" else SUBSCRIPTION
        obj = self._tracker.informer(kind).get(Key(route.namespace, route.name))
        if obj is None or obj["metadata"].get("uid") != route.uid:
            return
        record = self._recorder.normal if event.is_good else self._recorder.warning
        record(obj, event.reason, event.message)
        write_log = log.info if event.is_good else log.warning
        write_log(event.message, reason=event.reason, kind=route.kind, namespace=route.namespace, name=route.name)
        self._print(f"{name_of(route)}: {event.message}")

    def _print(self, line: str) -> None:
        now = self._clock()
        if len(self._lines) == LINES and now - self._lines[0] < LINES_SECONDS:
            self._omitted += 1
            return
        self._lines.append(now)
        others, self._omitted = self._omitted, 0
        self._print_line(f"{line} (and {others} other lines like this; penstock lag shows all)" if others else line)


def name_of(route: Route) -> str:
    """`trigger/greetings`, with the namespace where it is another than the default one."""
    suffix = "" if route.namespace == "default" else f" in {route.namespace}"
    return f"{route.kind.lower()}/{route.name}{suffix}"
