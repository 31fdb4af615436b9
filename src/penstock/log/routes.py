"""`penstock.routes` as its writer sees it, and the ends of `penstock.events`: blocking calls, for a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, TopicPartition

from penstock.contract import topics
from penstock.contract.routes import VERSION_KEY, Record, Version, decode
from penstock.log import clients
from penstock.log.table import TableFollower
from penstock.log.watchdog import ending_process
from penstock.settings import Settings

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

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closing = threading.Event()
        options = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": int(TIMEOUT_SECONDS * 1000)}
        self._producer = clients.producer(settings, "routes", options, ending_process())

    def read(self) -> Stored:
        """Everything the topic holds; waits for a Kafka that is not there yet."""
        stored = Stored()
        done = threading.Event()
        failures: list[BaseException] = []

        def apply(key: str, value: bytes | None) -> None:
            stored.complete = key == VERSION_KEY
            if value is None:
                stored.records.pop(key, None)
                return
            record = decode(key, value)  # one that cannot be read is missing here, and is so written anew
            if isinstance(record, Version):
                stored.version = record.version
            elif record is not None:
                stored.records[key] = record

        def failed(error: BaseException) -> None:
            failures.append(error)
            done.set()

        follower = TableFollower(self._settings, topics.ROUTES, apply, done.set, failed)
        follower.start()
        while not done.wait(0.1) and not self._closing.is_set():
            pass
        follower.stop()
        if failures:
            raise failures[0]
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
        consumer = clients.consumer(self._settings, "event-ends", {}, watchdog=None)
        try:
            metadata = consumer.list_topics(topics.EVENTS, timeout=TIMEOUT_SECONDS).topics[topics.EVENTS]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            places = [TopicPartition(topics.EVENTS, number) for number in sorted(metadata.partitions)]
            return tuple(consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)[1] for place in places)
        finally:
            consumer.close()
