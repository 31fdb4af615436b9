"""What `penstock tail` shows: which records of which topic, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import typer

from penstock.cli.cluster_api import CHANNELS, ClusterApi
from penstock.cli.operate.event_text import attempt_line, event_line, event_object
from penstock.cli.operate.filtering import passes
from penstock.cli.operate.names import look_up
from penstock.cli.operate.printing import Sample, print_pieces
from penstock.contract import attempts, headers, topics
from penstock.contract.attempts import AttemptRecord
from penstock.contract.unreadable import Unreadable
from penstock.engine.problem import Problem
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.filters.predicate import Predicate
from penstock.log.live import following
from penstock.log.ranges import LogRecord
from penstock.settings import Settings

POLL_SECONDS = 0.2
EVENTS = ("broker", "channel", "inmemorychannel")
ROUTES = ("trigger", "subscription")


@dataclass(frozen=True)
class Wanted:
    """What is to be shown."""

    predicate: Predicate
    is_attempts: bool = False
    uid: str | None = None
    """Of the Broker or Channel, or of the route; None: of any."""

    @property
    def topic(self) -> str:
        """Where it is."""
        return topics.ATTEMPTS if self.is_attempts else topics.EVENTS

    def narrowed(self, api: ClusterApi, what: str, namespace: str) -> Wanted:
        """The same of one object. Raises Problem."""
        resource, obj = look_up(api, what, namespace, EVENTS + ROUTES)
        is_route = resource.kind.lower() in ROUTES
        if self.is_attempts and not is_route:
            raise Problem("--deliveries is for a trigger/NAME or a subscription/NAME, or for all.", exit_code=2)
        uid = obj["metadata"]["uid"]
        if resource == CHANNELS:
            # Events are accepted for the channel behind it, which has its name.
            behind = ((obj.get("status") or {}).get("channel") or {}).get("name")
            if behind:
                uid = look_up(api, f"inmemorychannel/{behind}", namespace, EVENTS)[1]["metadata"]["uid"]
        return replace(self, is_attempts=is_route, uid=uid)

    def event(self, record: LogRecord) -> CloudEvent | None:
        """The event of a record of `penstock.events`, where it is wanted."""
        if self.uid is not None and dict(record.headers).get(headers.TARGET) != self.uid.encode():
            return None
        try:
            event = kafka.from_headers(record.headers, record.value)
        except MalformedEvent:
            return None  # a marker, or nothing of penstock's
        return event if passes(self.predicate, event) else None

    def attempt(self, record: LogRecord) -> AttemptRecord | None:
        """The attempt of a record of `penstock.attempts`, where it is wanted."""
        try:
            attempt = attempts.decode(record.value or b"")
        except Unreadable:
            return None
        if self.uid is not None and attempt.route != self.uid:
            return None
        seen = CloudEvent({"specversion": "1.0", "id": attempt.id, "source": attempt.source, "type": attempt.type})
        return attempt if passes(self.predicate, seen) else None


class LiveView:
    """Prints what is wanted."""

    def __init__(self, wanted: Wanted, *, as_json: bool, count: int | None, everything: bool) -> None:
        self._wanted, self._as_json, self._left = wanted, as_json, count
        self._sample = None if everything else Sample(lambda text: typer.echo(text, err=as_json))

    def run(self, settings: Settings) -> None:
        """Until there were as many as asked for."""
        with following(settings, self._wanted.topic) as reader:
            while True:
                for _, record in reader.poll(POLL_SECONDS):
                    if not self.take(record):
                        return
                if self._sample is not None:
                    self._sample.turn()

    def take(self, record: LogRecord) -> bool:
        """Shows a record, if it is wanted; false when there have been enough."""
        wanted = self._wanted
        found = wanted.attempt(record) if wanted.is_attempts else wanted.event(record)
        if found is None or (self._sample is not None and not self._sample.admits()):
            return True
        if self._as_json:
            shown = event_object(found) if isinstance(found, CloudEvent) else found
            typer.echo(msgspec.json.encode(shown))
        elif isinstance(found, CloudEvent):
            print_pieces(event_line(found, record.at_ms / 1000))
        else:
            print_pieces(attempt_line(found))
        if self._left is not None:
            self._left -= 1
        return self._left != 0
