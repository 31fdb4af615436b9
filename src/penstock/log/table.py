"""Following a compacted topic: read it from its beginning, then every change as it comes.

One thread per topic hands records to a callback. A Kafka that is away is waited for; what was read stays in force. A
client that has lost Kafka for good is replaced and goes on where it was. A record that cannot be read is reported and
passed over: what its key said before stays in force.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from penstock.contract import topics
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.contract.unreadable import Unreadable
from penstock.log import clients
from penstock.log.error_advice import sentence
from penstock.log.tail import get_to_know
from penstock.log.threads import Failed, OwnedThread
from penstock.log.unreadable import report_unreadable
from penstock.log.watchdog import Watchdog
from penstock.settings import Settings

log = structlog.get_logger()

Apply = Callable[[str, bytes | None], None]
"""Takes a key and its newest value, None where it is deleted. May raise Unreadable."""


class TableFollower:
    """Hands the records of a single-partition topic to `apply`; calls `caught_up` once the end was reached."""

    def __init__(
        self, settings: Settings, topic: str, apply: Apply, caught_up: Callable[[], None], failed: Failed
    ) -> None:
        self._settings, self._apply, self._caught_up = settings, apply, caught_up
        self._topic = clients.topic_name(settings, topic)
        self._away = False
        self._behind = True
        self._next = OFFSET_BEGINNING
        self._watchdog = Watchdog()
        self._stop = threading.Event()
        self._thread = OwnedThread(f"follower of {topic}", self._run, failed)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; returns when no callback runs any more."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._watchdog = Watchdog()
            consumer = clients.consumer(self._settings, "follower", self._options(), self._watchdog)
            try:
                get_to_know(consumer, self._topic)
                consumer.assign([TopicPartition(self._topic, 0, self._next)])
                self._read(consumer)
            finally:
                consumer.close()

    def _options(self) -> dict[str, object]:
        return {
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 500,
            "isolation.level": "read_committed",
            "error_cb": self._not_reached,
        }

    def _read(self, consumer: Consumer) -> None:
        """Until stopped, or until the consumer is of no use any more."""
        while not self._stop.is_set() and not self._watchdog.gone:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._not_reached(error)
            elif self._behind:
                self._behind = self._away = False
                self._caught_up()
        if self._watchdog.gone:
            log.warning("a Kafka client knew no broker any more and is replaced", topic=self._topic)

    def _take(self, message: Message) -> None:
        self._away = False
        self._next = (message.offset() or 0) + 1
        try:
            self._apply(text_key(message), message.value())
        except Unreadable as problem:
            report_unreadable(message, problem)

    def _not_reached(self, error: KafkaError) -> None:
        """Says once that Kafka is away, not at every attempt to reach it."""
        if not self._away:
            self._away = True
            log.warning("waiting for Kafka", topic=self._topic, error=sentence(error))


def text_key(message: Message) -> str:
    """The key of a record of a table. Raises Unreadable."""
    key = message.key()
    try:
        if key is not None:
            return key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError as error:
        raise Unreadable("its key is not text") from error
    raise Unreadable("it has no key")


class SnapshotFollower:
    """Keeps the newest snapshot of routes and announces each one, from the follower's thread."""

    def __init__(self, settings: Settings, announce: Callable[[Snapshot], None], failed: Failed) -> None:
        self.snapshot = Snapshot()
        self.caught_up = threading.Event()
        self._announce = announce
        self._builder = SnapshotBuilder()
        self._follower = TableFollower(settings, topics.ROUTES, self._apply, self._reached_end, failed)

    def start(self) -> None:
        """Begins to read; the first announcement is the state at the end of the topic."""
        self._follower.start()

    def stop(self) -> None:
        """Ends reading."""
        self._follower.stop()

    def _apply(self, key: str, value: bytes | None) -> None:
        snapshot = self._builder.apply(key, value)
        if snapshot is not None:
            self.snapshot = snapshot
            if self.caught_up.is_set():
                self._announce(snapshot)

    def _reached_end(self) -> None:
        self.caught_up.set()
        self._announce(self.snapshot)
