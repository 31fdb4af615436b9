"""Counting and reporting the records that the query set aside: neither events of a target nor markers.

They lie in a topic of their own, unchanged but for the headers that say where they came from.
"""

from __future__ import annotations

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from penstock.contract import topics
from penstock.log.watchdog import Watchdog
from penstock.observability.metrics import POISONED
from penstock.router.matched_record import decode
from penstock.router.positions import Retained

log = structlog.get_logger()

LOGGED_AT_ONCE = 20
"""Records that get a line of their own at one look; more are counted only."""


class SetAside:
    """Looks at what has been set aside since it was started. Used by one thread only."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._counter = POISONED.bind(topics.EVENTS)
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "penstock-router-set-aside",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 2000,
            "error_cb": lambda error: None,  # the router's other questions report that Kafka is away
        }
        self._next: dict[int, int] = {}
        self._open()

    def start(self, ends: list[Retained]) -> None:
        """Counts from these ends on."""
        if not self._next:
            self._next = {number: kept.end for number, kept in enumerate(ends)}
            self._assign()

    def look(self) -> None:
        """Takes note of what has come; does not wait."""
        if self._sight.gone:
            self._consumer.close()
            self._open()
            self._assign()
        logged = 0
        while (message := self._consumer.poll(0)) is not None:
            if message.error() is not None:
                continue
            self._next[int(message.partition() or 0)] = int(message.offset() or 0) + 1
            self.count += 1
            self._counter.inc()
            if logged < LOGGED_AT_ONCE:
                logged += 1
                log.warning("a record that is no event was set aside", topic=topics.EVENTS, **_place(message))

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def _open(self) -> None:
        self._sight = Watchdog()
        self._consumer = Consumer(self._sight.of(self._settings))

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(topics.SET_ASIDE, *place) for place in self._next.items()])


def _place(message: Message) -> dict[str, int | None]:
    found = decode(message.partition() or 0, message.offset() or 0, 0, message.headers())  # type: ignore[arg-type]
    return {"partition": message.partition(), "offset": None if found is None else found.origin}
