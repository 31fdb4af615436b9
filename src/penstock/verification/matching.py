"""Which of the accepted events each route was to get. Pure: rows of events in, places of events out.

A route is judged by the filter that it has now, from when on that filter was certainly in force. What was accepted
before is counted, and not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from penstock.events.event import CloudEvent
from penstock.filters.data.facts import facts_asked
from penstock.filters.evaluate import matches, matches_event
from penstock.filters.parse import parse
from penstock.filters.predicate import Predicate
from penstock.filters.walk import attributes_asked
from penstock.history.schema.columns import ATTRIBUTES, EVENTS
from penstock.verification.routes import JudgedRoute

OWN_COLUMNS = frozenset({*ATTRIBUTES, "datacontenttype"})
MOST_KNOWN = 100_000
"""Verdicts on attributes that are kept: events have few combinations of those that filters ask for, as a rule."""


class AcceptedEvent(NamedTuple):
    """What has to be known of an event to find the routes that were to get it."""

    partition: int
    offset: int
    at: int
    """When it was accepted, Unix microseconds."""
    target: str
    values: tuple[str | None, ...]
    """Of the attributes that filters ask for, in the order of `EventMatcher.names`."""
    data: bytes | None = None
    """Only where filters ask for data."""


class Due(NamedTuple):
    """An event that a route was to get."""

    route: int
    partition: int
    offset: int


@dataclass
class EventMatcher:
    """Matches events with the filters of routes, and counts."""

    routes: Sequence[JudgedRoute]
    known_since: Mapping[int, int]
    """By partition, from when on all attempts are known, Unix microseconds."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Events, by target."""
    unjudged: Counter[int] = field(default_factory=Counter)
    """Events that a route's filter matches, of before it is judged."""

    def __post_init__(self) -> None:
        predicates = [parse(judged.route.attributes, judged.route.filters) for judged in self.routes]
        self.asks_data = any(facts_asked(predicate) for predicate in predicates)
        asked = {name for predicate in predicates for name in attributes_asked(predicate)}
        self.names = sorted(asked | ({"datacontenttype"} if self.asks_data else set()))
        """Attributes that filters ask for."""
        self._of_target: dict[str, list[tuple[int, Predicate]]] = {}
        for number, predicate in enumerate(predicates):
            self._of_target.setdefault(self.routes[number].route.target, []).append((number, predicate))
        self._since = [micro(judged.since) if judged.since is not None else 0 for judged in self.routes]
        self._known: dict[tuple[str, tuple[str | None, ...]], tuple[int, ...]] = {}

    @property
    def targets(self) -> list[str]:
        """Whose events count."""
        return sorted(self._of_target)

    def due(self, events: Iterable[AcceptedEvent]) -> list[Due]:
        """What the routes were to get of these events."""
        found: list[Due] = []
        for event in events:
            if event.target not in self._of_target:
                continue
            self.accepted[event.target] += 1
            known = event.at >= self.known_since.get(event.partition, 0)
            for number in self._matching(event):
                start = self.routes[number].route.start
                if event.partition < len(start) and event.offset < start[event.partition]:
                    continue
                if known and event.at >= self._since[number]:
                    found.append(Due(number, event.partition, event.offset))
                else:
                    self.unjudged[number] += 1
        return found

    def of_row(self, row: Sequence[Any]) -> AcceptedEvent:
        """The event of a row of `events` that was made of a record of Kafka."""
        extensions: Mapping[str, str] = row[_EXTENSIONS]
        values = tuple(row[_PLACE[name]] if name in OWN_COLUMNS else extensions.get(name) for name in self.names)
        at = micro(row[_ARRIVAL])
        data = row[_DATA] if self.asks_data else None
        return AcceptedEvent(row[_PARTITION], row[_OFFSET], at, row[_TARGET], values, data)

    def _matching(self, event: AcceptedEvent) -> tuple[int, ...]:
        if self.asks_data:
            attributes = self._attributes(event)
            whole = CloudEvent(attributes, event.data)
            of_target = self._of_target[event.target]
            return tuple(number for number, predicate in of_target if matches_event(predicate, whole))
        key = event.target, event.values
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            attributes, of_target = self._attributes(event), self._of_target[event.target]
            found = tuple(number for number, predicate in of_target if matches(predicate, attributes))
            self._known[key] = found
        return found

    def _attributes(self, event: AcceptedEvent) -> dict[str, str]:
        return {name: value for name, value in zip(self.names, event.values, strict=True) if value is not None}


def micro(moment: datetime) -> int:
    """Unix microseconds."""
    return round(moment.timestamp() * 1_000_000)


_PLACE = {name: number for number, name in enumerate(EVENTS.names)}
_PARTITION, _OFFSET, _ARRIVAL, _TARGET, _EXTENSIONS, _DATA = (
    _PLACE[name] for name in ("partition", "offset", "arrival", "target", "extensions", "data")
)
