"""Counting and reporting the records that the query found to be neither events of a target nor markers.

They lie in a topic of their own, unchanged but for the headers that say where they came from.
"""

from __future__ import annotations

import structlog

from penstock.contract import topics
from penstock.kafka.clients import topic_name
from penstock.kafka.topic_ends import NewRecords, Retained, SeenRecord
from penstock.kafka.unreadable import effect, readable_key
from penstock.observability.metrics import UNREADABLE
from penstock.router.matched_record import decode
from penstock.settings import Settings

log = structlog.get_logger()

LOGGED_AT_ONCE = 20
"""Records that get a line of their own at one look; more are counted only."""


class UnreadableEvents:
    """Looks at what has come since it was started. Used by one thread only."""

    def __init__(self, settings: Settings) -> None:
        self.count = 0
        self._topic = topic_name(settings, topics.EVENTS)
        self._counter = UNREADABLE.bind(self._topic)
        self._records = NewRecords(settings, topics.UNREADABLE)

    def start(self, ends: list[Retained]) -> None:
        """Counts from these ends on."""
        self._records.start(ends)

    def look(self) -> None:
        """Takes note of what has come; does not wait."""
        logged = 0
        while (record := self._records.poll()) is not None:
            self.count += 1
            self._counter.inc()
            if logged < LOGGED_AT_ONCE:
                logged += 1
                log.error(
                    "a record cannot be read and is passed over",
                    topic=self._topic,
                    **_place(record),
                    effect=effect(self._topic),
                )

    def close(self) -> None:
        """Leaves Kafka."""
        self._records.close()


def _place(record: SeenRecord) -> dict[str, object]:
    found = decode(record.partition, record.offset, 0, record.headers)
    return {
        "partition": record.partition,
        "offset": None if found is None else found.origin,
        "key": readable_key(record.key),
        "problem": "it is neither an event of a Broker or Channel, nor a marker",
    }
