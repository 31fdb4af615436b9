"""What of a partition has changed since the last flush, and the records that write it down."""

from __future__ import annotations

import time
from collections.abc import Iterable

from penstock.contract import topics
from penstock.dispatcher.cursors import attempt_record as attempt_records
from penstock.dispatcher.cursors import keys as journal_keys
from penstock.dispatcher.cursors.attempt_record import AttemptRecord
from penstock.dispatcher.cursors.cursor import Cursor, encode
from penstock.dispatcher.cursors.cursor_store import Entry
from penstock.dispatcher.cursors.partition import PartitionCursors

TAIL_ONLY_SECONDS = 5.0
"""How often a tail that moved over markers alone is written down: they come every few seconds and matter to nobody."""


class Unflushed:
    """Gathers what the next flush of a partition writes."""

    def __init__(self, ledger: PartitionCursors) -> None:
        self._ledger = ledger
        self.facts: list[AttemptRecord] = []
        self._others: dict[str, bytes | None] = {}
        self._tail: int | None = None
        self._tail_matters = False
        self._tail_at = 0.0

    def carry(self, route: str, origin: int, value: bytes) -> None:
        """A delivery takes something along."""
        self._others[journal_keys.carried_key(route, self._ledger.partition, origin)] = value

    def drop_carried(self, route: str, origin: int) -> None:
        """It is no longer needed."""
        self._others[journal_keys.carried_key(route, self._ledger.partition, origin)] = None

    def orphaned(self, idents: Iterable[tuple[str, int]]) -> None:
        """StagePayload things whose delivery is gone."""
        for route, origin in idents:
            self.drop_carried(route, origin)

    def removed(self, cursor: Cursor) -> None:
        """The route is gone: its cursor is deleted, and what its deliveries carried."""
        partition = self._ledger.partition
        self._others[journal_keys.cursor_key(cursor.route, partition)] = None
        for delivery in cursor.outstanding.values():
            if delivery.stage:
                self.drop_carried(cursor.route, delivery.origin)

    def tail_moved(self, with_routes: bool) -> None:
        """The tail has read a record."""
        self._tail_matters = self._tail_matters or with_routes

    def entries(self, final: bool = False) -> list[Entry]:
        """Everything that changed, as records; nothing of it counts as changed any more."""
        ledger, partition = self._ledger, self._ledger.partition
        entries = [Entry(topics.ATTEMPTS, fact.route, attempt_records.encode(fact)) for fact in self.facts]
        self.facts = []
        for cursor in ledger.changed:
            key = journal_keys.cursor_key(cursor.route, partition)
            self._others.pop(key, None)  # a route that came back after it was removed
            entries.append(Entry(topics.CURSORS, key, encode(cursor)))
        ledger.changed.clear()
        entries.extend(Entry(topics.CURSORS, key, value) for key, value in self._others.items())
        self._others = {}
        now = time.monotonic()
        worth_it = bool(entries) or final or self._tail_matters or now - self._tail_at > TAIL_ONLY_SECONDS
        if ledger.tail is not None and ledger.tail != self._tail and worth_it:
            entries.append(Entry(topics.CURSORS, journal_keys.tail_key(partition), str(ledger.tail).encode()))
            self._tail, self._tail_at, self._tail_matters = ledger.tail, now, False
        return entries
