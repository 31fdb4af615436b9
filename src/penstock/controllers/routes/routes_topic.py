"""`penstock.routes` and the ends of `penstock.events`, as blocking calls; the publisher runs them in a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.contract import topics
from penstock.contract.routes import VERSION_KEY, Record, Version, decode
from penstock.log.table import TableFollower
from penstock.log.watchdog import watched

log = structlog.get_logger()

TIMEOUT_SECONDS = 15.0


@dataclass
class Stored:
    """What the topic holds."""

    records: dict[str, Record] = field(default_factory=dict)
    version: int = 0
    complete: bool = False
    """Whether the newest record is a Version."""


class RoutesTopic:
    """The control plane's side of the topic: it is the only writer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._closing = threading.Event()
        self._producer = Producer(
            watched(
                {
                    "bootstrap.servers": bootstrap,
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "message.timeout.ms": int(TIMEOUT_SECONDS * 1000),
                }
            )
        )

    def read(self) -> Stored:
        """Everything the topic holds; waits for a Kafka that is not there yet."""
        stored = Stored()
        reached_end = threading.Event()

        def apply(key: str, value: bytes | None) -> None:
            stored.complete = key == VERSION_KEY
            if value is None:
                stored.records.pop(key, None)
                return
            try:
                record = decode(key, value)
            except msgspec.MsgspecError:
                log.error("a record of the routes cannot be read and is written anew", key=key)
                return
            if isinstance(record, Version):
                stored.version = record.version
            elif record is not None:
                stored.records[key] = record

        follower = TableFollower(self._bootstrap, topics.ROUTES, apply, reached_end.set)
        follower.start()
        while not reached_end.wait(0.1) and not self._closing.is_set():
            pass
        follower.stop()
        return stored

    def close(self) -> None:
        """Ends a `read` that waits; nothing is written afterwards."""
        self._closing.set()

    def write(self, changes: list[tuple[str, bytes | None]], version: bytes) -> None:
        """Writes the changed records (None deletes) and the version that completes them, in this order."""
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

        for key, value in [*changes, (VERSION_KEY, version)]:
            while True:
                try:
                    self._producer.produce(topics.ROUTES, key=key, value=value, on_delivery=delivered)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        left = self._producer.flush(TIMEOUT_SECONDS)
        if failures or left:
            raise KafkaException(failures[0] if failures else f"{left} records were not acknowledged in time")

    def look_after(self) -> None:
        """To be called now and then: hears what the client has to say about itself."""
        self._producer.poll(0)

    def event_ends(self) -> tuple[int, ...]:
        """The offset after the last event of each partition of `penstock.events`."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "penstock-controllers"})
        try:
            metadata = consumer.list_topics(topics.EVENTS, timeout=TIMEOUT_SECONDS).topics[topics.EVENTS]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            places = [TopicPartition(topics.EVENTS, number) for number in sorted(metadata.partitions)]
            return tuple(consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)[1] for place in places)
        finally:
            consumer.close()
