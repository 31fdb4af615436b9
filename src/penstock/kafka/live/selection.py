"""Which of the records that come one wants to see, read as what they are."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.contract import attempts, headers
from penstock.contract.attempts import AttemptRecord
from penstock.contract.unreadable import Unreadable
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.predicate import Predicate
from penstock.kafka.ranges import LogRecord


@dataclass(frozen=True)
class LiveSelection:
    """Events, or attempts, that are wanted."""

    predicate: Predicate
    uid: str | None = None
    """Of the Broker or Channel, or of the route; None: of any."""

    def event(self, record: LogRecord) -> CloudEvent | None:
        """The event of a record of `penstock.events`, where it is wanted."""
        if self.uid is not None and dict(record.headers).get(headers.TARGET) != self.uid.encode():
            return None
        try:
            event = kafka.from_headers(record.headers, record.value)
        except MalformedEvent:
            return None  # a marker, or nothing of penstock's
        return event if matches_event(self.predicate, event) else None

    def attempt(self, record: LogRecord) -> AttemptRecord | None:
        """The attempt of a record of `penstock.attempts`, where it is wanted."""
        try:
            attempt = attempts.decode(record.value or b"")
        except Unreadable:
            return None
        if self.uid is not None and attempt.route != self.uid:
            return None
        seen = CloudEvent({"specversion": "1.0", "id": attempt.id, "source": attempt.source, "type": attempt.type})
        return attempt if matches_event(self.predicate, seen) else None
