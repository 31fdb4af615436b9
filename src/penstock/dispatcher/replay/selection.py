"""Which events a Replay takes, and what a subscriber sees of them."""

from __future__ import annotations

from penstock.contract import headers
from penstock.contract.routes import Replay, Route
from penstock.dispatcher.matched.record import Matched
from penstock.events import kafka_binding as kafka
from penstock.events.broker_attributes import TTL
from penstock.events.event import MalformedEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.parse import InvalidFilter, parse
from penstock.filters.predicate import AnyOf, Predicate

REPLAY = kafka.PREFIX + "penstockreplay"
"""The attribute that tells a subscriber that, and by which Replay, an event comes again."""

NOTHING: Predicate = AnyOf(())
"""Of filters that cannot be read: admission refuses them, so they were stored without it."""


class ReplaySelection:
    """What one Replay takes. The filters mean what they mean to the router: a test holds both against each other."""

    def __init__(self, route: Route, replay: Replay) -> None:
        self.route = route
        self._target = route.target.encode()
        self._ids = frozenset(replay.ids)
        self._from_ms = int(replay.since * 1000)
        self._until_ms = float("inf") if replay.until is None else int(replay.until * 1000)
        self._by_arrival = replay.given_up_by is None
        self._predicates = [_predicate(route.attributes, route.filters), _predicate({}, replay.filters)]

    def wants(self, record: Matched) -> bool:
        """Whether it takes the event. Markers have no target, and what cannot be read has none either."""
        if record.fields.get(headers.TARGET) != self._target:
            return False
        if self._by_arrival and not self._from_ms <= record.at < self._until_ms:
            return False
        if self._ids and record.identity[0] not in self._ids:
            return False
        try:
            event = record.event
        except MalformedEvent:
            return False
        return all(matches_event(predicate, event) for predicate in self._predicates)


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


def _predicate(attributes: dict[str, str], filters: list[dict[str, object]]) -> Predicate:
    try:
        return parse(attributes, filters)
    except InvalidFilter:
        return NOTHING
