"""Which events a Replay, or a route that reads events again, selects; and how a subscriber sees them."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from penstock.contract import records, topics
from penstock.contract.attempts import AttemptRecord, decode
from penstock.contract.records import Unreadable
from penstock.contract.routes import Replay, Route
from penstock.dispatcher.matched_record import Matched
from penstock.events import kafka_binding
from penstock.events.attributes import TTL
from penstock.events.event import MalformedEvent
from penstock.filters.data.facts import is_fact
from penstock.filters.evaluate import matches_event
from penstock.filters.normal import exact_atom
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Predicate
from penstock.kafka.ranges import RangeReader
from penstock.settings import Settings

REPLAY = kafka_binding.PREFIX + "penstockreplay"
"""The attribute with the name of the Replay that an event is from."""

NOTHING: Predicate = AnyOf(())
"""In place of an invalid filter: admission refuses those, so it was stored without admission."""


class EventMatch:
    """The events of one target that match a filter, with the same result as in the router; a test compares both."""

    def __init__(self, target: str, attributes: dict[str, str], filters: list[dict[str, object]]) -> None:
        self._target = target.encode()
        self._predicate = _predicate(attributes, filters)

    def wants(self, record: Matched) -> bool:
        """Whether the event matches. Markers and unreadable records have no target."""
        if record.fields.get(records.TARGET) != self._target:
            return False
        try:
            return matches_event(self._predicate, record.event)
        except MalformedEvent:
            return False


class RouteSelection:
    """The events of one partition that match a route: each by the filter that was in force when it arrived, as far as
    that is still known."""

    def __init__(self, route: Route, partition: int) -> None:
        self.route = route
        self._ends = [former.until[partition] if partition < len(former.until) else 0 for former in route.former]
        self._matches = [EventMatch(one.target, one.attributes, one.filters) for one in route.former]
        self._matches.append(EventMatch(*route.match))

    def wants(self, record: Matched) -> bool:
        """Whether the router would have matched it."""
        return self._matches[bisect_right(self._ends, record.origin)].wants(record)


class EventMatcher:
    """The routes that an event of one partition matches: indexed by an attribute that most of them filter by, so that
    each event is compared with its likely routes only."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._selections: dict[str, RouteSelection] = {}
        self._indexed: dict[str, dict[bytes, dict[str, None]]] = {}
        """By a header and its value, the routes that match only events with it."""
        self._others: dict[str, None] = {}

    def __contains__(self, route: str) -> bool:
        """Whether it includes this route."""
        return route in self._selections

    @property
    def unindexed(self) -> int:
        """Routes that every event is compared with."""
        return len(self._others)

    def serve(self, routes: Mapping[str, Route]) -> None:
        """Matches these routes, and no others, from now on. It costs little if they are the same as before."""
        for selection in [one for uid, one in self._selections.items() if routes.get(uid) is not one.route]:
            del self._selections[selection.route.uid]
            del self._bucket(selection.route)[selection.route.uid]
        for uid, route in routes.items():
            if uid not in self._selections:
                self._selections[uid] = RouteSelection(route, self._partition)
                self._bucket(route)[uid] = None

    def _bucket(self, route: Route) -> dict[str, None]:
        """The routes under the same index entry as this one."""
        header = None if route.former else _required_header(route)
        return self._others if header is None else self._indexed.setdefault(header[0], {}).setdefault(header[1], {})

    def wanting(self, record: Matched) -> Iterator[str]:
        """The routes that match the event."""
        likely = [self._others]
        for header, by_value in self._indexed.items():
            value = record.fields.get(header)
            if value is not None and (found := by_value.get(value)):
                likely.append(found)
        return (uid for uids in likely for uid in uids if self._selections[uid].wants(record))


class ReplaySelection:
    """The events that one Replay selects."""

    def __init__(self, route: Route, replay: Replay) -> None:
        self.route = route
        self._match = EventMatch(*route.match)
        self._ids = frozenset(replay.ids)
        self._from_ms = int(replay.since * 1000)
        self._until_ms = float("inf") if replay.until is None else int(replay.until * 1000)
        self._by_arrival = replay.given_up_by is None
        self._also = EventMatch(route.target, {}, replay.filters)

    def wants(self, record: Matched) -> bool:
        """Whether it selects the event."""
        if self._by_arrival and not self._from_ms <= record.at < self._until_ms:
            return False
        if self._ids and record.identity[0] not in self._ids:
            return False
        return self._match.wants(record) and self._also.wants(record)


def as_replayed(record: Matched, route: Route) -> Matched:
    """The event as a Replay sends it: with the name of the Replay, and without TTL if the Replay has its own sink.

    Past events that a new Trigger or Subscription asked for are new to it, and so they are sent unchanged.
    """
    fields = dict(record.fields)
    if route.replay is None or route.replay.past_of is None:
        fields[REPLAY] = route.name.encode()
    if route.subscriber is None:
        fields.pop(kafka_binding.PREFIX + TTL, None)
    return Matched(
        record.partition,
        record.offset,
        record.at,
        record.origin,
        routes=(route.uid,),
        raw=fields,
        value=record.value,
    )


def _required_header(route: Route) -> tuple[str, bytes] | None:
    """A header, and its value, that all events of the route have; None where there is no such header."""
    atom = exact_atom(_predicate(route.attributes, route.filters))
    if atom is None or is_fact(atom.attribute) or atom.attribute == "datacontenttype":
        return None
    return kafka_binding.PREFIX + atom.attribute, atom.value.encode()


def _predicate(attributes: dict[str, str], filters: list[dict[str, object]]) -> Predicate:
    try:
        return parse(attributes, filters)
    except InvalidFilter:
        return NOTHING


FAILED_RESULTS = ("dropped", "deadletter")
"""Results after which a subscriber never gets the event: nowhere to send it, or on to the dead letter sink."""
_IN_JSON = tuple(f'"{result}"'.encode() for result in FAILED_RESULTS)


def failed_origins(attempts: Iterable[AttemptRecord], replay: Replay) -> list[int]:
    """The events that a Replay selects by failed attempts, each once, in order."""
    return sorted({attempt.origin for attempt in attempts if asks_for(replay, attempt)})


def asks_for(replay: Replay, attempt: AttemptRecord) -> bool:
    """Whether the attempt dropped or dead-lettered an event of the route, in the time and for the reason selected."""
    return (
        attempt.route == replay.given_up_by
        and attempt.result in FAILED_RESULTS
        and replay.since <= attempt.at
        and (replay.until is None or attempt.at < replay.until)
        and replay.reason.lower() in (attempt.reason or "").lower()
    )


def failed_attempts(settings: Settings, partition: int, ending: threading.Event) -> Iterator[AttemptRecord]:
    """The failed attempts in a partition, as far as Kafka has them. Blocks. Raises KafkaAway."""
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
    """The attempt of a record if it failed; None for a success or an unreadable record."""
    if value is None or not any(result in value for result in _IN_JSON):
        return None
    try:
        return decode(value)
    except Unreadable:
        return None
