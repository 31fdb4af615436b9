"""`penstock.routes` as its writer sees it, and the ends of `penstock.events`: blocking calls, for a thread.

A change is written in one transaction, so that no reader ever sees a part of it. The transactional id is the same for
every control plane: one that starts while another one publishes to the same Kafka takes over, and the other one ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, TopicPartition

from penstock.contract import topics
from penstock.contract.records import Unreadable
from penstock.contract.routes import VERSION_KEY, Record
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.kafka import clients
from penstock.kafka.table import TableFollower
from penstock.kafka.topic_ends import Retained
from penstock.kafka.transactions import Entry, Fenced, TransactionalPartition
from penstock.runtime.tasks import Failed
from penstock.settings import Settings

TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class StoredRoutes:
    """What the topic holds."""

    records: dict[str, Record] = field(default_factory=dict)
    version: int = 0
    complete: bool = False
    """Whether the newest record is a Version."""
    unreadable: frozenset[str] = frozenset()
    """Keys whose newest record cannot be read; what an older one says, if it is still there, is among `records`."""
    routes_missing: bool = False
    """Whether there may be routes of which nothing is left, not even the key."""


class StoredReader:
    """Builds the content of the topic from its records, one by one."""

    def __init__(self) -> None:
        self._builder = SnapshotBuilder()
        self._newest = Snapshot()
        self._complete = False

    def apply(self, key: str, value: bytes | None) -> None:
        """Takes the next record. Raises Unreadable, after noting it."""
        self._complete = False
        snapshot = self._builder.apply(key, value)
        if snapshot is not None:
            self._newest, self._complete = snapshot, True

    def stored(self) -> StoredRoutes:
        """What was read so far."""
        unreadable = frozenset(self._builder.unreadable)
        # If the version cannot be read, the number of routes is unknown.
        missing = self._builder.missing > 0 or VERSION_KEY in unreadable
        return StoredRoutes(self._builder.records(), self._newest.version, self._complete, unreadable, missing)


class PublisherSuperseded(RuntimeError):
    """Another control plane publishes to this Kafka now; this one must end."""


class NotTaken(RuntimeError):
    """Kafka refuses a record of a change for good, so nothing of the change was written."""

    def __init__(self, key: str, size: int) -> None:
        super().__init__(f"Kafka does not take the record {key} of {size} bytes")
        self.key, self.size = key, size


class RoutesTopic:
    """The control plane's side of the topic: it is the only writer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closing = threading.Event()
        self._log = TransactionalPartition(settings, "routes", 0)

    def read(self) -> StoredRoutes:
        """Takes the topic over, and returns everything it holds; waits until Kafka is reachable."""
        self._log.open()
        return self.look()

    def look(self) -> StoredRoutes:
        """Everything the topic holds, without taking it over."""
        reader = StoredReader()
        done = threading.Event()
        failures: list[BaseException] = []

        def failed(error: BaseException) -> None:
            failures.append(error)
            done.set()

        follower = TableFollower(self._settings, topics.ROUTES, reader.apply, done.set, failed)
        follower.start()
        while not done.wait(0.1) and not self._closing.is_set():
            pass
        follower.stop()
        if failures:
            raise failures[0]
        return reader.stored()

    def watch_unreadable(self, found: Callable[[str], None], failed: Failed) -> TableFollower:
        """Calls `found`, from a thread of its own, with each key whose record cannot be read, now and later."""
        reader, behind = StoredReader(), True

        def apply(key: str, value: bytes | None) -> None:
            try:
                reader.apply(key, value)
            except Unreadable:
                if not behind:
                    found(key)
                raise

        def caught_up() -> None:
            nonlocal behind
            behind = False
            for key in reader.stored().unreadable:
                found(key)

        follower = TableFollower(self._settings, topics.ROUTES, apply, caught_up, failed)
        follower.start()
        return follower

    def close(self) -> None:
        """Ends waiting; nothing is written afterwards."""
        self._closing.set()
        self._log.stop_waiting.set()

    def write(self, changes: list[tuple[str, bytes | None]], version: bytes) -> None:
        """Writes the changed records (None deletes) and the version that completes them, or nothing.

        Waits while Kafka is unreachable. Raises PublisherSuperseded where another control plane has taken over.
        """
        entries = [Entry(topics.ROUTES, key, value) for key, value in [*changes, (VERSION_KEY, version)]]
        try:
            self._log.commit(entries, _none_without)
        except Fenced as error:
            raise PublisherSuperseded(
                "another control plane publishes the routes in this Kafka: only one may"
            ) from error

    def look_after(self) -> None:
        """To be called now and then: serves the callbacks of the client."""
        self._log.look_after()

    def retained_events(self) -> tuple[Retained, ...]:
        """What each partition of `penstock.events` holds."""
        consumer = clients.consumer(self._settings, "event-ends", {}, watchdog=None)
        try:
            name = clients.topic_name(self._settings, topics.EVENTS)
            metadata = consumer.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            places = [TopicPartition(name, number) for number in sorted(metadata.partitions)]
            return tuple(Retained(*consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)) for place in places)
        finally:
            consumer.close()

    def events_since(self, moment: float) -> tuple[int, ...]:
        """The first offset of each partition of `penstock.events` that was written at that Unix time or later."""
        consumer = clients.consumer(self._settings, "event-times", {}, watchdog=None)
        try:
            ends = self.retained_events()
            name = clients.topic_name(self._settings, topics.EVENTS)
            wanted = [TopicPartition(name, number, int(moment * 1000)) for number in range(len(ends))]
            found = {place.partition: place for place in consumer.offsets_for_times(wanted, timeout=TIMEOUT_SECONDS)}
            for place in found.values():
                if place.error is not None:
                    raise KafkaException(place.error)
            # The offset is -1 where no record is that new.
            return tuple(end.end if found[n].offset < 0 else found[n].offset for n, end in enumerate(ends))
        finally:
            consumer.close()


def _none_without(_: list[Entry], refused: Entry) -> list[Entry]:
    """Nothing may be written without the refused record: readers would take the version for complete."""
    raise NotTaken(refused.key, refused.size)
