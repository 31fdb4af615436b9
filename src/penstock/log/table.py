"""Following a compacted topic: read it from its beginning, then every change as it comes.

One thread per topic hands records to a callback. A Kafka that is away is waited for; what was read stays in force. A
client that has lost Kafka for good is replaced and goes on where it was.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.contract import topics
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.log.watchdog import Watchdog

log = structlog.get_logger()

Apply = Callable[[str, bytes | None], None]


class TableFollower:
    """Hands the records of a single-partition topic to `apply`; calls `caught_up` once the end was reached."""

    def __init__(self, bootstrap: str, topic: str, apply: Apply, caught_up: Callable[[], None]) -> None:
        self._bootstrap, self._topic, self._apply, self._caught_up = bootstrap, topic, apply, caught_up
        self._away = False
        self._behind = True
        self._next = OFFSET_BEGINNING
        self._sight = Watchdog()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow {topic}", daemon=True)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; returns when no callback runs any more."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._sight = Watchdog()
            consumer = Consumer(self._sight.of(self._settings()))
            try:
                # An assignment to a topic that the client has not heard of yet starts half a second late.
                with contextlib.suppress(KafkaException):
                    consumer.list_topics(self._topic, 2)
                consumer.assign([TopicPartition(self._topic, 0, self._next)])
                self._read(consumer)
            finally:
                consumer.close()

    def _settings(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self._bootstrap,
            "group.id": "penstock-follower",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 500,
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 30_000,
            "error_cb": self._failed,
        }

    def _read(self, consumer: Consumer) -> None:
        """Until stopped, or until the consumer is of no use any more."""
        while not self._stop.is_set() and not self._sight.gone:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._away = False
                self._next = int(message.offset() or 0) + 1
                key = message.key()
                if key is not None:
                    self._apply(key.decode() if isinstance(key, bytes) else str(key), message.value())
            elif error.code() != KafkaError._PARTITION_EOF:
                self._failed(error)
            elif self._behind:
                self._behind = self._away = False
                self._caught_up()
        if self._sight.gone:
            log.warning("a Kafka client knew no broker any more and is replaced", topic=self._topic)

    def _failed(self, error: KafkaError) -> None:
        """Says once that Kafka is away, not at every attempt to reach it."""
        if not self._away:
            self._away = True
            log.warning("waiting for Kafka", topic=self._topic, error=str(error))


class SnapshotFollower:
    """Keeps the newest snapshot of routes and announces each one, from the follower's thread."""

    def __init__(self, bootstrap: str, announce: Callable[[Snapshot], None]) -> None:
        self.snapshot = Snapshot()
        self.caught_up = threading.Event()
        self._announce = announce
        self._builder = SnapshotBuilder()
        self._follower = TableFollower(bootstrap, topics.ROUTES, self._apply, self._reached_end)

    def start(self) -> None:
        """Begins to read; the first announcement is the state at the end of the topic."""
        self._follower.start()

    def stop(self) -> None:
        """Ends reading."""
        self._follower.stop()

    def _apply(self, key: str, value: bytes | None) -> None:
        snapshot = self._builder.apply(key, value)
        for rejected in self._builder.rejected:
            log.error("a record of the routes cannot be read and is left out", key=rejected)
        self._builder.rejected.clear()
        if snapshot is not None:
            self.snapshot = snapshot
            if self.caught_up.is_set():
                self._announce(snapshot)

    def _reached_end(self) -> None:
        self.caught_up.set()
        self._announce(self.snapshot)
