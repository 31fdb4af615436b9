"""How the deliveries of routes go, as the dispatcher's tasks tell it: what of it is worth a status, and what an Event.

A status is written when it tells something new: at once that deliveries fail, why, or that they succeed again; numbers
after some seconds where they matter, because the route fails or is far behind, and after a minute where they do not.
All statuses together are written at so many a second: what is new comes first, numbers wait for their turn. It is the
same with Events: that a route fails, or does no more, comes first; what was dropped is counted until its turn comes.
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

NUMBERS_SECONDS = 5.0
"""How long the status of a route that fails, or is far behind, stays as it is at least."""
QUIET_SECONDS = 60.0
"""The same, for a route of which nothing but small numbers is to be told."""
STATUSES_PER_SECOND = 8
"""What all routes together get in the long run: a write costs 5 ms of a processor, the API's part included."""
BURST = 100
"""Statuses that may be written at once after a quiet time."""
KEPT_FOR_NEWS = 50
"""Of these, how many only failures and their end may use."""
EVENTS_PER_SECOND = 2
"""Events of all routes together in the long run; as with statuses, BURST of them after a quiet time."""
FRESH_PER_SECOND = 500
WAITING_PER_SECOND = 50
"""How many routes are looked at, of those that something was told of, and of those that wait."""
TELL_SECONDS = 30.0
"""The same kind of thing is told of a route so often at most; counts add up in between."""
PAST_SECONDS = 10.0
SMALL = 16
"""A healthy route with fewer events waiting is not behind, only busy. That nothing waits any more is worth telling."""

Reason = Literal["DeliveryFailed", "DeliveryRecovered", "EventsDropped", "EventsDeadLettered"]


@dataclass(frozen=True)
class RouteHappening:
    """Something that people should be told of a route."""

    route: str
    reason: Reason
    message: str

    @property
    def is_good(self) -> bool:
        """Whether it is good news."""
        return self.reason == "DeliveryRecovered"


@dataclass
class _Route:
    """What is known of a route, what of it is shown, and what was told."""

    instances: dict[str, Standing]
    shown: DeliveryState | None = None
    shown_at: float = float("-inf")
    dropped: int = 0
    dead_lettered: int = 0
    """Counted and not told yet, as is `dropped`."""
    told_at: dict[Reason, float] = field(default_factory=dict)
    told_failing: bool = False
    began: DeliveryState | None = None
    """The state when a run of failures was told."""

    def has_recovered(self, state: DeliveryState) -> bool:
        """Whether an attempt succeeded since it began to fail. A task that was restarted knows of no failure yet, which
        is not a success."""
        return not state.fails and state.succeeded > (self.began.since if self.began else 0.0)

    def is_settled(self, state: DeliveryState) -> bool:
        """Whether everything is shown and reported."""
        reported = not self.has_recovered(state) if self.told_failing else not state.fails
        return self.shown == state and reported and not (self.dropped or self.dead_lettered)


class RouteStandings:
    """All routes of which the data plane has told anything."""

    def __init__(self) -> None:
        self._routes: dict[str, _Route] = {}
        self._fresh: dict[str, None] = {}
        """Routes of which something was told since they were last looked at."""
        self._waiting: dict[str, None] = {}
        """Routes with something that is not shown yet, those that wait longest first."""
        self._statuses = TokenBucket(STATUSES_PER_SECOND, BURST)
        self._events = TokenBucket(EVENTS_PER_SECOND, BURST)

    def shown(self, route: str) -> DeliveryState | None:
        """What the status says of the route."""
        found = self._routes.get(route)
        return None if found is None else found.shown

    def take(self, standing: Standing, *, fresh: bool) -> None:
        """A task tells of a route. What lay in the topic when this process began is shown, but told to nobody."""
        route = self._routes.setdefault(standing.route, _Route({}))
        before = route.instances.get(standing.instance)
        route.instances[standing.instance] = standing
        if fresh:
            route.dropped += _more(before.dropped if before else 0, standing.dropped)
            route.dead_lettered += _more(before.dead_lettered if before else 0, standing.dead_lettered)
        else:
            known = merged(route.instances.values())
            route.told_failing, route.began = known.fails, known if known.fails else None
        self._fresh[standing.route] = None

    def forget(self, key: str) -> None:
        """A task says no more of a route: the key of its report was deleted."""
        _, _, rest = key.partition("/")
        uid, _, instance = rest.partition("/")
        route = self._routes.get(uid)
        if route is not None:
            route.instances.pop(instance, None)
            if not route.instances:
                del self._routes[uid]
                self._fresh.pop(uid, None)
                self._waiting.pop(uid, None)

    def tick(self, now: float, alive: Collection[str] = ()) -> tuple[list[str], list[RouteHappening]]:
        """Once a second: the routes whose status is to be written, and what is to be told.

        `alive` are the tasks that were heard of lately: what others told is past, unless there are none at all.
        """
        happenings: list[RouteHappening] = []
        chosen: list[str] = []
        looked_at = dict.fromkeys((*islice(self._fresh, FRESH_PER_SECOND), *islice(self._waiting, WAITING_PER_SECOND)))
        for uid in looked_at:
            self._fresh.pop(uid, None)
            self._waiting.pop(uid, None)
            route = self._routes[uid]
            state = merged(one for name, one in route.instances.items() if not alive or name in alive)
            happenings += self._happenings(uid, route, state, now)
            kind = news(route.shown, state, now - route.shown_at)
            if kind != "none" and _take(self._statuses, now, urgent=kind == "urgent"):
                route.shown, route.shown_at = state, now
                chosen.append(uid)
            if not route.is_settled(state):
                self._waiting[uid] = None
        return chosen, happenings

    def _happenings(self, uid: str, route: _Route, state: DeliveryState, now: float) -> Iterator[RouteHappening]:
        told = route.told_at

        def may(reason: Reason) -> bool:
            if now - told.get(reason, float("-inf")) < TELL_SECONDS:
                return False
            if not _take(self._events, now, urgent=reason in {"DeliveryFailed", "DeliveryRecovered"}):
                return False
            told[reason] = now
            return True

        if state.fails and not route.told_failing and may("DeliveryFailed"):
            route.told_failing, route.began = True, state
            yield RouteHappening(uid, "DeliveryFailed", failure_text(state, now))
        elif route.told_failing and route.has_recovered(state) and may("DeliveryRecovered"):
            began, route.told_failing = route.began, False
            yield RouteHappening(uid, "DeliveryRecovered", recovery_text(began, state))
        if route.dropped and may("EventsDropped"):
            count, route.dropped = route.dropped, 0
            yield RouteHappening(uid, "EventsDropped", dropped_text(count, state))
        if route.dead_lettered and may("EventsDeadLettered"):
            count, route.dead_lettered = route.dead_lettered, 0
            yield RouteHappening(uid, "EventsDeadLettered", f"{_events(count)} went to the dead letter sink")


def _take(bucket: TokenBucket, now: float, *, urgent: bool) -> bool:
    return bucket.take(now, reserve=0 if urgent else KEPT_FOR_NEWS)


def merged(standings: Iterable[Standing]) -> DeliveryState:
    """The tasks of a route taken together. One whose last failure is long past counts no more where others succeed."""
    every = list(standings)
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


def _failed_at(standing: Standing) -> float:
    return standing.failed


def news(shown: DeliveryState | None, state: DeliveryState, age: float) -> Literal["urgent", "numbers", "none"]:
    """Whether `state` tells something that `shown`, which is so many seconds old, does not."""
    if shown is None:
        return "urgent" if state.fails or state.expiring else "numbers"
    if shown.expiring != state.expiring or shown.fails != state.fails or (state.fails and _why(shown) != _why(state)):
        return "urgent"
    if shown == state:
        return "none"
    patience = NUMBERS_SECONDS if _matters(shown, state) else QUIET_SECONDS
    return "numbers" if age >= patience else "none"


def _matters(shown: DeliveryState, state: DeliveryState) -> bool:
    if state.fails:
        return _moved(shown.lag, state.lag, 1) or _moved(shown.failures, state.failures, 1)
    return _moved(shown.lag, state.lag, SMALL) or (shown.lag > 0 and state.lag == 0)


def _moved(before: int, after: int, small: int) -> bool:
    """Whether a number is another one to a person: by a tenth, or to or from next to nothing."""
    if before < small and after < small:
        return False
    return abs(before - after) * 10 >= max(before, after)


def _why(state: DeliveryState) -> tuple[object, ...]:
    return (*cause(state), state.url)


def _more(before: int, after: int) -> int:
    """How many more there are; a task that began anew counts from nothing."""
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
    """What was given up, and what would have kept it."""
    return (
        f"{_events(count)} {'was' if count == 1 else 'were'} dropped: no attempt succeeded"
        f"{f' at {state.url}' if state.url else ''}, and no dead letter sink took {'it' if count == 1 else 'them'}"
    )


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"


# Tells people how deliveries go: as Events of the Trigger or Subscription, in the log, and on the terminal.

log = structlog.get_logger()

LINES, LINES_SECONDS = 8, 10.0
"""A terminal gets so many lines within that time; a thousand routes that fail at once must not hide everything else."""


class Announcer:
    """Takes what happened to routes."""

    def __init__(
        self,
        tracker: Tracker,
        recorder: EventRecorder,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tracker, self._recorder, self._say, self._clock = tracker, recorder, say, clock
        self._lines: deque[float] = deque(maxlen=LINES)
        self._unsaid = 0

    def __call__(self, route: Route, happening: RouteHappening) -> None:
        """Something happened."""
        kind = TRIGGER if route.kind == "Trigger" else SUBSCRIPTION
        obj = self._tracker.informer(kind).get(Key(route.namespace, route.name))
        if obj is None or obj["metadata"].get("uid") != route.uid:
            return
        tell = self._recorder.normal if happening.is_good else self._recorder.warning
        tell(obj, happening.reason, happening.message)
        note = log.info if happening.is_good else log.warning
        note(happening.message, reason=happening.reason, kind=route.kind, namespace=route.namespace, name=route.name)
        self._say_line(f"{name_of(route)}: {happening.message}")

    def _say_line(self, line: str) -> None:
        now = self._clock()
        if len(self._lines) == LINES and now - self._lines[0] < LINES_SECONDS:
            self._unsaid += 1
            return
        self._lines.append(now)
        others, self._unsaid = self._unsaid, 0
        self._say(f"{line} (and {others} other lines like this; penstock lag shows all)" if others else line)


def name_of(route: Route) -> str:
    """`trigger/greetings`, with the namespace where it is another than the default one."""
    place = "" if route.namespace == "default" else f" in {route.namespace}"
    return f"{route.kind.lower()}/{route.name}{place}"
