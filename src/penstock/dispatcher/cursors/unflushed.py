"""What of a partition has changed since the last flush, and the records that write it down."""

from __future__ import annotations

import time
from collections.abc import Iterable

from penstock.contract import topics
from penstock.dispatcher.cursors import attempt_record as attempt_records
from penstock.dispatcher.cursors import keys
from penstock.dispatcher.cursors.attempt_record import AttemptRecord
from penstock.dispatcher.cursors.cursor import Cursor, encode
from penstock.dispatcher.cursors.cursor_store import Entry
from penstock.dispatcher.cursors.partition import PartitionCursors

TAIL_ONLY_SECONDS = 5.0
"""How often a tail that moved over markers alone is written down: they come every few seconds and matter to nobody."""


class Unflushed:
    """Gathers what the next flush of a partition writes."""

    def __init__(self, cursors: PartitionCursors) -> None:
        self._cursors = cursors
        self.attempts: list[AttemptRecord] = []
        self._others: dict[str, bytes | None] = {}
        self._tail: int | None = None
        self._tail_matters = False
        self._tail_at = 0.0

    def keep_payload(self, route: str, origin: int, value: bytes) -> None:
        """A delivery has something to send in its next stage."""
        self._others[keys.payload_key(route, self._cursors.partition, origin)] = value

    def drop_payload(self, route: str, origin: int) -> None:
        """It is no longer needed."""
        self._others[keys.payload_key(route, self._cursors.partition, origin)] = None

    def orphaned(self, idents: Iterable[tuple[str, int]]) -> None:
        """Payloads whose delivery is gone."""
        for route, origin in idents:
            self.drop_payload(route, origin)

    def removed(self, cursor: Cursor) -> None:
        """The route is gone: its cursor is deleted, and what its deliveries payload."""
        partition = self._cursors.partition
        self._others[keys.cursor_key(cursor.route, partition)] = None
        for delivery in cursor.outstanding.values():
            if delivery.stage:
                self.drop_payload(cursor.route, delivery.origin)

    def tail_moved(self, with_routes: bool) -> None:
        """The tail has read a record."""
        self._tail_matters = self._tail_matters or with_routes

    def entries(self, final: bool = False) -> list[Entry]:
        """Everything that changed, as records; nothing of it counts as changed any more."""
        cursors, partition = self._cursors, self._cursors.partition
        entries = [Entry(topics.ATTEMPTS, attempt.route, attempt_records.encode(attempt)) for attempt in self.attempts]
        self.attempts = []
        for cursor in cursors.changed:
            key = keys.cursor_key(cursor.route, partition)
            self._others.pop(key, None)  # a route that came back after it was removed
            entries.append(Entry(topics.CURSORS, key, encode(cursor)))
        cursors.changed.clear()
        entries.extend(Entry(topics.CURSORS, key, value) for key, value in self._others.items())
        self._others = {}
        now = time.monotonic()
        worth_it = bool(entries) or final or self._tail_matters or now - self._tail_at > TAIL_ONLY_SECONDS
        if cursors.tail is not None and cursors.tail != self._tail and worth_it:
            entries.append(Entry(topics.CURSORS, keys.tail_key(partition), str(cursors.tail).encode()))
            self._tail, self._tail_at, self._tail_matters = cursors.tail, now, False
        return entries
