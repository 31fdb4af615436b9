"""Tells people how deliveries go: as Events of the Trigger or Subscription, in the log, and on the terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import structlog

from penstock.contract.routes import Route
from penstock.controllers.recorder import EventRecorder
from penstock.controllers.routes.standings import RouteHappening
from penstock.controllers.tracker import Tracker
from penstock.kube.kinds import SUBSCRIPTION, TRIGGER, Key

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
