"""What of a partition has changed since the last flush, and the records that write it down.

The order of the records matters only if the log should lose its end in the middle of a flush: what a cursor counts as
taken must be on disk before the cursor, so deliveries and payloads go first, then cursors, then the tail.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.contract import attempts, topics
from penstock.contract.attempts import AttemptRecord
from penstock.dispatcher.cursors import keys
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding, Stage, encode, encode_delivery
from penstock.dispatcher.cursors.cursor_store import Entry
from penstock.dispatcher.cursors.partition import PartitionCursors

TAIL_ONLY_SECONDS = 5.0
"""How often a tail that moved over markers alone is written down: they come every few seconds and are for no route."""

Ident = tuple[str, int]
"""Route and origin."""


class Unflushed:
    """Gathers what the next flush of a partition writes."""

    def __init__(self, cursors: PartitionCursors) -> None:
        self._cursors = cursors
        self.attempts: list[AttemptRecord] = []
        self._payloads: dict[Ident, bytes | None] = {}
        self._deliveries: dict[Ident, Outstanding | None] = {}
        self._removed: dict[str, None] = {}
        self._tail: int | None = None
        self._tail_matters = False
        self._tail_at = 0.0

    def keep_payload(self, route: str, origin: int, value: bytes) -> None:
        """A delivery has something to send in its next stage."""
        self._payloads[route, origin] = value

    def drop_payload(self, route: str, origin: int) -> None:
        """It is no longer needed."""
        self._payloads[route, origin] = None

    def changed(self, cursor: Cursor, delivery: Outstanding) -> None:
        """A delivery goes on: in another stage, with another attempt, at another time."""
        if cursor.has_record(delivery.origin):
            self._deliveries[cursor.route, delivery.origin] = delivery
        else:
            cursor.move(delivery.origin)

    def finished(self, cursor: Cursor, origin: int) -> None:
        """A delivery has ended, one way or another."""
        if cursor.has_record(origin):
            self._deliveries[cursor.route, origin] = None
        cursor.finish(origin)

    def orphaned(self, deliveries: Iterable[Ident], payloads: Iterable[Ident]) -> None:
        """Records of deliveries that are over, or that their cursor has not taken."""
        self._deliveries.update(dict.fromkeys(deliveries))
        self._payloads.update(dict.fromkeys(payloads))

    def removed(self, cursor: Cursor) -> None:
        """The route is gone: its cursor is deleted, with the deliveries and payloads that have records."""
        self._removed[cursor.route] = None
        for delivery in cursor.outstanding.values():
            if cursor.has_record(delivery.origin):
                self._deliveries[cursor.route, delivery.origin] = None
            if delivery.stage is not Stage.SUBSCRIBER:
                self._payloads[cursor.route, delivery.origin] = None

    def tail_moved(self, with_routes: bool) -> None:
        """The tail has read a record."""
        self._tail_matters = self._tail_matters or with_routes

    def entries(self, now: float, final: bool = False) -> list[Entry]:
        """Everything that changed, as records; nothing of it counts as changed any more."""
        entries = [Entry(topics.ATTEMPTS, attempt.route, attempts.encode(attempt)) for attempt in self.attempts]
        self.attempts = []
        changed = list(self._cursors.changed)
        self._cursors.changed.clear()
        for cursor in changed:
            self._removed.pop(cursor.route, None)  # a route that came back after it was removed
            for delivery in cursor.settle():
                self._deliveries[cursor.route, delivery.origin] = delivery
        entries += self._of_deliveries()
        partition = self._cursors.partition
        for cursor in changed:
            entries.append(Entry(topics.CURSORS, keys.cursor_key(cursor.route, partition), encode(cursor)))
        for route in self._removed:
            entries.append(Entry(topics.CURSORS, keys.cursor_key(route, partition), None))
        self._removed = {}
        entries += self._of_tail(now, worth_it=bool(entries) or final)
        return entries

    def _of_deliveries(self) -> Iterable[Entry]:
        partition = self._cursors.partition
        for (route, origin), payload in self._payloads.items():
            yield Entry(topics.CURSORS, keys.payload_key(route, partition, origin), payload)
        for (route, origin), delivery in self._deliveries.items():
            value = None if delivery is None else encode_delivery(delivery)
            yield Entry(topics.CURSORS, keys.delivery_key(route, partition, origin), value)
        self._payloads, self._deliveries = {}, {}

    def _of_tail(self, now: float, *, worth_it: bool) -> Iterable[Entry]:
        tail = self._cursors.position
        if tail is None or tail.next == self._tail:
            return
        if worth_it or self._tail_matters or now - self._tail_at > TAIL_ONLY_SECONDS:
            yield Entry(topics.CURSORS, keys.tail_key(self._cursors.partition), msgspec.json.encode(tail))
            self._tail, self._tail_at, self._tail_matters = tail.next, now, False
