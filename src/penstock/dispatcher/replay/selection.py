"""Which events a Replay takes, and a route that reads them again; and what a subscriber sees of them."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from penstock.contract import records, topics
from penstock.contract.attempts import AttemptRecord, decode
from penstock.contract.records import Unreadable
from penstock.contract.routes import Replay, Route
from penstock.dispatcher.matched_record import Matched
from penstock.events import kafka_binding as kafka
from penstock.events.attributes import TTL
from penstock.events.event import MalformedEvent
from penstock.filters.data.facts import is_fact
from penstock.filters.evaluate import matches_event
from penstock.filters.normal import exact_atom
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Predicate
from penstock.kafka.ranges import RangeReader
from penstock.settings import Settings

REPLAY = kafka.PREFIX + "penstockreplay"
"""The attribute that tells a subscriber that, and by which Replay, an event comes again."""

NOTHING: Predicate = AnyOf(())
"""Of filters that cannot be read: admission refuses them, so they were stored without it."""


class EventMatch:
    """The events of one target that a filter wants. It means what it means to the router: a test holds both against
    each other."""

    def __init__(self, target: str, attributes: dict[str, str], filters: list[dict[str, object]]) -> None:
        self._target = target.encode()
        self._predicate = _predicate(attributes, filters)

    def wants(self, record: Matched) -> bool:
        """Whether it is one of them. Markers have no target, and what cannot be read has none either."""
        if record.fields.get(records.TARGET) != self._target:
            return False
        try:
            return matches_event(self._predicate, record.event)
        except MalformedEvent:
            return False


class RouteSelection:
    """What a route wants of the events of one partition: of each by the filter that was in force when it came, as far
    as that is still known."""

    def __init__(self, route: Route, partition: int) -> None:
        self.route = route
        self._ends = [former.until[partition] if partition < len(former.until) else 0 for former in route.former]
        self._matches = [EventMatch(one.target, one.attributes, one.filters) for one in route.former]
        self._matches.append(EventMatch(*route.match))

    def wants(self, record: Matched) -> bool:
        """Whether the router would have matched it."""
        return self._matches[bisect_right(self._ends, record.origin)].wants(record)


class EventMatcher:
    """Which routes want an event of one partition: found by an attribute that most of them ask for, so that each event
    meets its likely routes only."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._selections: dict[str, RouteSelection] = {}
        self._filed: dict[str, dict[bytes, dict[str, None]]] = {}
        """By a header and its value, the routes that want no event without it."""
        self._others: dict[str, None] = {}

    def __contains__(self, route: str) -> bool:
        """Whether it is asked about this route."""
        return route in self._selections

    @property
    def unfiled(self) -> int:
        """Routes that every event meets."""
        return len(self._others)

    def serve(self, routes: Mapping[str, Route]) -> None:
        """These routes, and no others, are asked from now on. Where they are the same as before, it costs a look."""
        for selection in [one for uid, one in self._selections.items() if routes.get(uid) is not one.route]:
            del self._selections[selection.route.uid]
            del self._company(selection.route)[selection.route.uid]
        for uid, route in routes.items():
            if uid not in self._selections:
                self._selections[uid] = RouteSelection(route, self._partition)
                self._company(route)[uid] = None

    def _company(self, route: Route) -> dict[str, None]:
        """The routes that are found where this one is."""
        place = None if route.former else _needed(route)
        return self._others if place is None else self._filed.setdefault(place[0], {}).setdefault(place[1], {})

    def wanting(self, record: Matched) -> Iterator[str]:
        """The routes that want the event."""
        likely = [self._others]
        for header, by_value in self._filed.items():
            value = record.fields.get(header)
            if value is not None and (found := by_value.get(value)):
                likely.append(found)
        return (uid for uids in likely for uid in uids if self._selections[uid].wants(record))


class ReplaySelection:
    """What one Replay takes."""

    def __init__(self, route: Route, replay: Replay) -> None:
        self.route = route
        self._match = EventMatch(*route.match)
        self._ids = frozenset(replay.ids)
        self._from_ms = int(replay.since * 1000)
        self._until_ms = float("inf") if replay.until is None else int(replay.until * 1000)
        self._by_arrival = replay.given_up_by is None
        self._also = EventMatch(route.target, {}, replay.filters)

    def wants(self, record: Matched) -> bool:
        """Whether it takes the event."""
        if self._by_arrival and not self._from_ms <= record.at < self._until_ms:
            return False
        if self._ids and record.identity[0] not in self._ids:
            return False
        return self._match.wants(record) and self._also.wants(record)


def as_replayed(record: Matched, route: Route) -> Matched:
    """The event as a Replay sends it: with the name of the Replay. A sink of the Replay's own sees no TTL.

    The past that a Trigger or Subscription asked for comes to it for the first time, and so as it was."""
    fields = dict(record.fields)
    if route.replay is None or route.replay.past_of is None:
        fields[REPLAY] = route.name.encode()
    if route.subscriber is None:
        fields.pop(kafka.PREFIX + TTL, None)
    return Matched(
        record.partition,
        record.offset,
        record.at,
        record.origin,
        routes=(route.uid,),
        raw=fields,
        value=record.value,
    )


def _needed(route: Route) -> tuple[str, bytes] | None:
    """A header, and its value, without which the route wants no event; None where there is no such header."""
    atom = exact_atom(_predicate(route.attributes, route.filters))
    if atom is None or is_fact(atom.attribute) or atom.attribute == "datacontenttype":
        return None
    return kafka.PREFIX + atom.attribute, atom.value.encode()


def _predicate(attributes: dict[str, str], filters: list[dict[str, object]]) -> Predicate:
    try:
        return parse(attributes, filters)
    except InvalidFilter:
        return NOTHING


# Which events a route gave up, by the records of its attempts.

FAILED_RESULTS = ("dropped", "deadletter")
"""Results after which a subscriber never gets the event: nowhere to send it, or on to the dead letter sink."""
_IN_JSON = tuple(f'"{result}"'.encode() for result in FAILED_RESULTS)


def failed_origins(attempts: Iterable[AttemptRecord], replay: Replay) -> list[int]:
    """The events that a Replay asks for, each once, in the order in which they came."""
    return sorted({attempt.origin for attempt in attempts if asks_for(replay, attempt)})


def asks_for(replay: Replay, attempt: AttemptRecord) -> bool:
    """Whether the attempt is one that the route gave up with, in the time and for the reason that are asked for."""
    return (
        attempt.route == replay.given_up_by
        and attempt.result in FAILED_RESULTS
        and replay.since <= attempt.at
        and (replay.until is None or attempt.at < replay.until)
        and replay.reason.lower() in (attempt.reason or "").lower()
    )


def failed_attempts(settings: Settings, partition: int, ending: threading.Event) -> Iterator[AttemptRecord]:
    """What was given up in a partition, as far as Kafka has it. Blocks: for a thread. Raises KafkaAway."""
    reader = RangeReader(settings)
    try:
        kept = reader.retained(topics.ATTEMPTS)[partition]
        for records in reader.read(topics.ATTEMPTS, {partition: kept.first}, {partition: kept.end}):
            if ending.is_set():
                return
            yield from (found for record in records if (found := attempt_of(record.value)) is not None)
    finally:
        reader.close()


def attempt_of(value: bytes | None) -> AttemptRecord | None:
    """The attempt of a record; None where it cannot be read, and where it went well, as nearly all do."""
    if value is None or not any(result in value for result in _IN_JSON):
        return None
    try:
        return decode(value)
    except Unreadable:
        return None
