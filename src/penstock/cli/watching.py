"""Follows one event (`penstock send --watch`): the routes that match it, and their attempts until each has finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from penstock.cli.event_text import attempt_line
from penstock.cli.filtering import reasons
from penstock.cli.output import say
from penstock.cli.terminal import print_pieces
from penstock.contract import attempts, topics
from penstock.contract import records as headers
from penstock.contract.attempts import AttemptRecord
from penstock.contract.records import Unreadable
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from penstock.kafka.live import LiveReader, following
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import KafkaAway
from penstock.kube.kinds import Obj
from penstock.operations.cluster_api import BROKERS, SUBSCRIPTIONS, TRIGGERS, ClusterApi, Resource
from penstock.runtime.errors import UserError
from penstock.settings import Settings

POLL_SECONDS = 0.2
ROUTING_SECONDS = 5.0
"""An event that is not in `penstock.matched` by then matches no route."""


class WatchedEvent:
    """An event, and the routes of the Broker or Channel that it is sent to."""

    def __init__(self, event: CloudEvent, api: ClusterApi, resource: Resource, target: Obj) -> None:
        self.identity = (event.id, event.source)
        self.target = f"{resource.kind} {target['metadata']['namespace']}/{target['metadata']['name']}"
        routes = TRIGGERS if resource == BROKERS else SUBSCRIPTIONS
        found = api.all(routes, target["metadata"]["namespace"])
        self.names = {obj["metadata"]["uid"]: _name(obj) for obj in found}
        ours = [obj for obj in found if target_of(obj) == target["metadata"]["name"]]
        self.unready = [_name(obj) for obj in ours if matches_unready(obj, event)]
        """Routes that match the event and do not get it, because they are not Ready."""

    @property
    def unmatched(self) -> str:
        """Why no route gets the event."""
        if self.unready:
            verb = "matches, but is" if len(self.unready) == 1 else "match, but are"
            return f"{', '.join(self.unready)} {verb} not Ready; no other route of {self.target} matches"
        return f"no route of {self.target} matches; penstock explain ROUTE says why"


class Journey:
    """What has been observed of an event so far."""

    def __init__(self, identity: tuple[str, str]) -> None:
        self._identity = identity
        self.routes: dict[str, str | None] = {}
        """The matching routes, each with the final result; None while deliveries continue."""
        self.known = False
        """Whether all matching routes are known."""

    def matched(self, record: LogRecord) -> bool:
        """Adds a record of `penstock.matched`; whether it is about this event."""
        fields = dict(record.headers)
        if _identity(fields) != self._identity:
            return False
        for uid in (fields.get(headers.ROUTES) or b"").decode().split(","):
            if uid:
                self.routes.setdefault(uid, None)
        self.known = headers.PARTS_LEFT not in fields
        return True

    def attempted(self, attempt: AttemptRecord) -> bool:
        """Adds an attempt; whether it is about this event."""
        if (attempt.id, attempt.source) != self._identity:
            return False
        if attempt.result in ("delivered", "dropped", "cancelled"):
            dead = attempt.stage == "deadletter" and attempt.result == "delivered"
            self.routes[attempt.route] = "deadletter" if dead else attempt.result
        else:
            self.routes.setdefault(attempt.route, None)
        return True

    @property
    def is_over(self) -> bool:
        """Whether every matching route has finished."""
        return self.known and all(self.routes.values())

    @property
    def waiting(self) -> list[str]:
        """Routes that have not finished."""
        return [uid for uid, end in self.routes.items() if end is None]

    @property
    def is_delivered(self) -> bool:
        """Whether it was delivered to every matching route."""
        return all(end == "delivered" for end in self.routes.values())


def watched_event(
    settings: Settings, watched: WatchedEvent, send: Callable[[], int], timeout: float, as_json: bool
) -> int:
    """Sends the event and follows it; the exit code."""
    try:
        with following(settings, topics.MATCHED, topics.ATTEMPTS) as reader:
            code = send()
            return code or _follow(reader, watched, timeout, as_json)
    except KafkaAway as error:
        raise UserError(f"Kafka cannot be read: {error}.") from None


def _follow(reader: LiveReader, watched: WatchedEvent, timeout: float, as_json: bool) -> int:
    journey, begun = Journey(watched.identity), time.monotonic()
    while not journey.is_over:
        passed = time.monotonic() - begun
        if not journey.routes and passed > ROUTING_SECONDS:
            text = f"no route of {watched.target} matched; to see why, run: penstock explain NAME"
            return _end(as_json, text, {"routes": {}}, 0)
        if passed > timeout:
            waiting = ", ".join(watched.names.get(uid, uid) for uid in journey.waiting)
            text = f"not delivered yet after {timeout:g} s: {waiting}"
            return _end(as_json, text, {"waiting": journey.waiting}, 1)
        for attempt in _attempts(reader.poll(POLL_SECONDS), journey):
            _show(attempt, as_json)
    delivered = sum(end == "delivered" for end in journey.routes.values())
    text = f"delivered to {delivered} of {len(journey.routes)} route{'' if len(journey.routes) == 1 else 's'}"
    return _end(as_json, text, {"routes": journey.routes}, 0 if journey.is_delivered else 1)


def _attempts(records: Iterable[tuple[str, LogRecord]], journey: Journey) -> list[AttemptRecord]:
    found = []
    for topic, record in records:
        if topic == topics.MATCHED:
            journey.matched(record)
            continue
        try:
            attempt = attempts.decode(record.value or b"")
        except Unreadable:
            continue
        if journey.attempted(attempt):
            found.append(attempt)
    return found


def _show(attempt: AttemptRecord, as_json: bool) -> None:
    if as_json:
        say(msgspec.json.encode(attempt).decode())
        return
    print_pieces(attempt_line(attempt, time.time()), indent="  ")


def _end(as_json: bool, text: str, shown: Mapping[str, Any], code: int) -> int:
    say(msgspec.json.encode(shown).decode() if as_json else text)
    return code


def _identity(fields: Mapping[str, bytes | None]) -> tuple[str, str]:
    values = [(fields.get(kafka.PREFIX + name) or b"").decode(errors="replace") for name in ("id", "source")]
    return values[0], values[1]


def matches_unready(route: Obj, event: CloudEvent) -> bool:
    """Whether a route would get the event, were it Ready."""
    try:
        verdict = reasons(route, event)
    except UserError:  # its filters are invalid
        return False
    return verdict.matches and not verdict.is_ready


def target_of(route: Obj) -> str:
    """The name of the Broker or channel that a Trigger or Subscription takes events of."""
    spec = route["spec"]
    return str(spec.get("broker") or (spec.get("brokerRef") or spec.get("channel") or {}).get("name") or "")


def _name(obj: Obj) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"
