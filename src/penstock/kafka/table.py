"""Following a compacted topic: reads it from its beginning, then every change as it arrives.

One thread per topic hands records to a callback. It waits while Kafka is unreachable; what was read stays in force. A
client that has lost Kafka for good is replaced, and the new one continues. A record that cannot be read is reported and
skipped: the former value of its key stays in force.

Kafka removes the record of a deletion after a while (`delete.retention.ms`). A follower that was disconnected for
longer would miss it and keep what was deleted for ever. So it reads everything again if it may have missed deletions.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.contract import topics
from penstock.contract.records import Unreadable
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.kafka import clients
from penstock.kafka.clients import describe_error
from penstock.kafka.tail import fetch_metadata
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import Watchdog
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.runtime.times import now
from penstock.settings import Settings

log = structlog.get_logger()

UNSURE_SECONDS = 1800.0
"""Time without having been at the end after which missing records may have been deletions: Kafka keeps those for an
hour."""
ASK_SECONDS = 300.0
"""How often Kafka is asked whether it is reachable, while there are no records."""
RESPONSE_SECONDS = 5.0

Apply = Callable[[str, bytes | None], None]
"""Takes a key and its newest value, None where it is deleted. May raise Unreadable."""


class TableFollower:
    """Hands the records of a single-partition topic to `apply`; calls `caught_up` once the end was reached.

    If deletions may have been missed it calls `again`, hands over everything from the beginning and then, as deleted,
    the keys that are gone, and calls `caught_up` again.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        apply: Apply,
        caught_up: Callable[[], None],
        failed: Failed,
        *,
        again: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = now,
    ) -> None:
        self._settings, self._apply, self._caught_up, self._again = settings, apply, caught_up, again
        self._topic = clients.topic_name(settings, topic)
        self._is_unreachable = False
        self._behind = True
        self._next = OFFSET_BEGINNING
        self._end = -1
        """Where the topic ended when reading began; negative while unknown. A topic that is written all the time never
        shows its end otherwise: Kafka reports it only if a fetch finds no record."""
        self._keys: set[str] = set()
        """Keys that have a value."""
        self._unread: set[str] = set()
        """Keys that were not read yet while everything is read again."""
        self._wanted_again = False
        self._clock, self._at_end = clock, clock()
        self._watchdog = Watchdog()
        self._stop = threading.Event()
        self._thread = OwnedThread(f"follower of {topic}", self._run, failed)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stops reading; returns when no callback runs any more."""
        self._stop.set()
        self._thread.join(10)

    def read_again(self) -> None:
        """Makes it read everything again. To be called from `apply` or `caught_up`, if deletions are missing."""
        self._wanted_again = True

    def _run(self) -> None:
        while not self._stop.is_set():
            self._watchdog = Watchdog()
            consumer = clients.consumer(self._settings, "follower", self._options(), self._watchdog)
            try:
                fetch_metadata(consumer, self._topic)
                self._end = self._current_end(consumer)
                consumer.assign([TopicPartition(self._topic, 0, self._next)])
                self._read(consumer)
            finally:
                consumer.close()

    def _options(self) -> dict[str, object]:
        return {
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 500,
            "isolation.level": "read_committed",
            "error_cb": self._warn_unreachable,
        }

    def _read(self, consumer: Consumer) -> None:
        """Reads until stopped, or until the consumer has to be replaced."""
        while not self._stop.is_set() and not self._watchdog.gone:
            if self._wanted_again:
                self._begin_again(consumer)
            message = consumer.poll(0.2)
            if message is None:
                self._confirm_end(consumer)
                continue
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._warn_unreachable(error)
            else:
                self._reach_end()
        if self._watchdog.gone:
            log.warning("a Kafka client knew no broker any more and is replaced", topic=self._topic)

    def _begin_again(self, consumer: Consumer) -> None:
        log.warning("deletions may have been missed; the topic is read again from its beginning", topic=self._topic)
        self._wanted_again, self._behind, self._unread = False, True, set(self._keys)
        self._next, self._end = OFFSET_BEGINNING, self._current_end(consumer)
        self._again()
        consumer.assign([TopicPartition(self._topic, 0, self._next)])

    def _reach_end(self) -> None:
        self._at_end = self._clock()
        if not self._behind:
            return
        for key in self._unread:
            self._keys.discard(key)
            self._apply(key, None)
        self._unread = set()
        self._behind = self._is_unreachable = False
        self._caught_up()

    def _take(self, message: Message) -> None:
        self._is_unreachable = False
        offset = message.offset() or 0
        if self._may_have_missed(offset):
            self._wanted_again = True
            return
        self._next = offset + 1
        try:
            key, value = text_key(message), message.value()
            self._unread.discard(key)
            (self._keys.discard if value is None else self._keys.add)(key)
            self._apply(key, value)
        except Unreadable as problem:
            report_unreadable(message, problem)
        if self._behind and 0 <= self._end <= self._next:
            self._reach_end()

    def _current_end(self, consumer: Consumer) -> int:
        with contextlib.suppress(KafkaException):
            return int(consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=RESPONSE_SECONDS)[1])
        return -1

    def _may_have_missed(self, offset: int) -> bool:
        """Whether this offset follows a gap, after so long that deletions may be missing. The end of a transaction is a
        gap as well; then everything is read again without need."""
        return not self._behind and offset > self._next and self._clock() - self._at_end > UNSURE_SECONDS

    def _confirm_end(self, consumer: Consumer) -> None:
        """Without records, either nothing has changed or Kafka is unreachable: finds out which, now and then."""
        unsure = self._clock() - self._at_end
        if self._behind or not ASK_SECONDS < unsure < UNSURE_SECONDS:
            return
        with contextlib.suppress(KafkaException):
            consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=RESPONSE_SECONDS)
            self._at_end = self._clock()

    def _warn_unreachable(self, error: KafkaError) -> None:
        """Logs once that Kafka is unreachable, not at every attempt to reach it."""
        if not self._is_unreachable:
            self._is_unreachable = True
            log.warning("waiting for Kafka", topic=self._topic, error=describe_error(error))


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

    def __init__(
        self,
        settings: Settings,
        announce: Callable[[Snapshot], None],
        failed: Failed,
        *,
        clock: Callable[[], float] = now,
    ) -> None:
        self.snapshot = Snapshot()
        self.caught_up = threading.Event()
        self._announce = announce
        self._builder, self._newest = SnapshotBuilder(), Snapshot()
        self._follower = TableFollower(
            settings, topics.ROUTES, self._apply, self._reached_end, failed, again=self._read_again, clock=clock
        )
        self._reads_again = False
        self._uncounted = 0
        """Records beyond those that the version counts, which were there when everything was read again."""

    def start(self) -> None:
        """Begins to read; the first announcement is the state at the end of the topic."""
        self._follower.start()

    def stop(self) -> None:
        """Ends reading."""
        self._follower.stop()

    def _apply(self, key: str, value: bytes | None) -> None:
        snapshot = self._builder.apply(key, value)
        if snapshot is None:
            return
        self._newest = snapshot
        if self._reads_again or not self.caught_up.is_set():
            return
        if self._builder.uncounted > self._uncounted:
            self._follower.read_again()
        else:
            self._show(snapshot)

    def _read_again(self) -> None:
        """The announced snapshot stays in force until everything has been read."""
        self._builder, self._reads_again = SnapshotBuilder(), True

    def _reached_end(self) -> None:
        if self._reads_again:
            self._reads_again, self._uncounted = False, self._builder.uncounted
        elif self._builder.uncounted:
            self._follower.read_again()
        self.caught_up.set()
        self._show(self._newest)

    def _show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._announce(snapshot)
