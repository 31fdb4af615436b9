"""Which types of events pass, for targets that want to know: told once for each type and source, and again after a
while, so that a description that somebody deleted comes back while such events still come.

Bounded, whatever producers send: beyond a number of types nothing more is told until the while is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import structlog

from penstock.contract.reports import SeenType
from penstock.events.event import CloudEvent

AGAIN_SECONDS = 60.0
MOST = 1000
LONGEST = 1024
"""Characters of a type or a source; what is longer is no name that anybody could use."""

log = structlog.get_logger()

Tell = Callable[[SeenType], None]


class SeenTypes:
    """What was told lately."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._told: set[tuple[str, str, str]] = set()
        self._until = 0.0

    def note(self, target: str, events: Iterable[CloudEvent]) -> None:
        """Tells of those types that are news."""
        if (now := self._clock()) >= self._until:
            self._told.clear()
            self._until = now + AGAIN_SECONDS
        for event in events:
            key = (target, event.type, event.source)
            if key not in self._told and len(event.type) <= LONGEST and len(event.source) <= LONGEST:
                self._note(key, event)

    def _note(self, key: tuple[str, str, str], event: CloudEvent) -> None:
        if len(self._told) > MOST:
            return
        self._told.add(key)
        if len(self._told) > MOST:
            log.warning("too many types of events for EventTypes to be made of all of them", most=MOST)
            return
        schema = str(event.attributes.get("dataschema") or "")
        version = str(event.attributes.get("specversion") or "1.0")
        self._tell(SeenType(*key, schema if len(schema) <= LONGEST else "", version, time.time()))
