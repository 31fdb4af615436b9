"""The ends of topics: what their partitions hold, their newest records, and the records after them.

Most of the time nothing is read. While markers are in transit the end of `penstock.matched` is followed; at a start the
newest record of each partition is looked up. `penstock.matched` is written without transactions, so offsets have no
holes except for foreign records. The caller gives the function that decodes a record.

After a request without a response the next one is made by another client: after a time without Kafka a client may have
lost all partitions and brokers, and does not look for them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.contract import topics
from penstock.kafka import clients
from penstock.kafka.tail import RawHeaders
from penstock.kafka.watchdog import Watchdog
from penstock.observability.logs import describe
from penstock.settings import Settings

KAFKA_SECONDS = 5.0
"""How long Kafka may take to respond to a request before it counts as unreachable."""

FIRST_LOOK_BACK, LARGEST_LOOK_BACK = 16, 65_536
"""Records read first when the newest one of a partition is searched; four times as many at each further step, up to a
limit."""

AT_ONCE = 500
"""Records handed on together while the end is followed."""

READING = {
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,  # reads in short bursts only, and nothing else should wait
    "queued.max.messages.kbytes": 4096,
    "error_cb": lambda error: None,  # every request reports its own failure
}

T = TypeVar("T")

Decode = Callable[[int, int, int, RawHeaders | None], T | None]
"""The record from its partition, offset, timestamp and headers; None for a foreign one."""


class KafkaAway(ConnectionError):
    """Kafka does not respond; nothing is known about the topics until it does."""


@dataclass(frozen=True)
class Retained:
    """What a partition still holds: offsets from `first` up to `end`, exclusive."""

    first: int
    end: int


class TopicEnds(Generic[T]):
    """The ends of `penstock.events` and `penstock.matched`. Used by one thread only."""

    def __init__(self, settings: Settings, decode: Decode[T], asking: Callable[[], None] = lambda: None) -> None:
        """Calls `asking` before every request, each of which has a timeout of its own."""
        self._settings, self._decode, self._asking = settings, decode, asking
        self._events = clients.topic_name(settings, topics.EVENTS)
        self._matched = clients.topic_name(settings, topics.MATCHED)
        self._consumer = self._connect()
        self._has_failed = False
        self._following: dict[int, int] = {}

    def _connect(self) -> Consumer:
        return clients.consumer(self._settings, "topic-ends", READING, watchdog=None)

    def partitions(self) -> int:
        """How many partitions the events have."""
        try:
            found = self._client().list_topics(self._events, timeout=KAFKA_SECONDS).topics[self._events]
        except KafkaException as error:
            raise self._away(describe(error)) from error
        if found.error is not None or not found.partitions:
            raise self._away(f"the topic {self._events} cannot be seen yet")
        return len(found.partitions)

    def retained(self, topic: str, partitions: int) -> list[Retained]:
        """What each partition of a topic holds."""
        return [self._retained(topic, partition) for partition in range(partitions)]

    def newest(self, partition: int, since: int = 0, wanted: Callable[[T], bool] = lambda record: True) -> T | None:
        """The newest record, of those wanted, that the router wrote to a partition of `penstock.matched` since an
        offset; None where there is none."""
        for records in self.backwards(partition, since):
            if (found := next(filter(wanted, reversed(records)), None)) is not None:
                return found
        return None

    def backwards(self, partition: int, since: int = 0) -> Iterator[list[T]]:
        """The records that the router wrote to a partition of `penstock.matched` since an offset, in larger and larger
        pieces from its end back; those of a piece in their order."""
        kept = self._retained(topics.MATCHED, partition)
        first, end, window = max(kept.first, since), kept.end, FIRST_LOOK_BACK
        while end > first:
            begin = max(first, end - window)
            yield [found for message in self._between(partition, begin, end) if (found := self._record(message))]
            end, window = begin, min(window * 4, LARGEST_LOOK_BACK)

    def event(self, partition: int, offset: int) -> RawHeaders | None:
        """The headers of the record at an offset of `penstock.events`; None where there is none."""
        for message in self._between(partition, offset, offset + 1, self._events):
            return message.headers() or ()  # type: ignore[return-value]  # pairs
        return None

    def follow(self, ends: list[Retained]) -> None:
        """Reads `penstock.matched` from these ends on, until `rest`."""
        self._following = {number: kept.end for number, kept in enumerate(ends)}
        self._assign()

    def poll(self, timeout: float) -> list[T]:
        """The records written since; waits up to `timeout` seconds for the first one."""
        if not self._following:
            return []
        first = self._client().poll(timeout)
        if first is None:
            return []
        found = [message for message in (first, *self._consumer.consume(AT_ONCE, 0)) if message.error() is None]
        for message in found:
            self._following[int(message.partition() or 0)] = int(message.offset() or 0) + 1
        return [record for message in found if (record := self._record(message))]

    def rest(self) -> None:
        """Stops reading."""
        self._following = {}
        self._consumer.unassign()

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()

    def _retained(self, topic: str, partition: int) -> Retained:
        place = TopicPartition(clients.topic_name(self._settings, topic), partition)
        try:
            first, end = self._client().get_watermark_offsets(place, timeout=KAFKA_SECONDS)
        except KafkaException as error:
            raise self._away(describe(error)) from error
        return Retained(int(first), int(end))

    def _between(self, partition: int, begin: int, end: int, topic: str = "") -> Iterator[Message]:
        topic = topic or self._matched
        self._client().assign([TopicPartition(topic, partition, begin)])
        try:
            while True:
                self._asking()
                message = self._consumer.poll(KAFKA_SECONDS)
                if message is None:
                    raise self._away(f"partition {partition} of {topic} cannot be read")
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    raise self._away(describe(error))
                if (message.offset() or 0) < end:
                    yield message
                if (message.offset() or 0) >= end - 1:
                    return
        finally:
            self._consumer.unassign()

    def _client(self) -> Consumer:
        """The client for the next request."""
        self._asking()
        if self._has_failed:
            self._consumer.close()
            self._consumer = self._connect()
            self._has_failed = False
            if self._following:
                self._assign()
        return self._consumer

    def _away(self, problem: str) -> KafkaAway:
        self._has_failed = True
        return KafkaAway(problem)

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._matched, *place) for place in self._following.items()])

    def _record(self, message: Message) -> T | None:
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:
            return None
        return self._decode(partition, offset, message.timestamp()[1], message.headers())  # type: ignore[arg-type]  # pairs


@dataclass(frozen=True)
class SeenRecord:
    """A record without its value."""

    partition: int
    offset: int
    key: str | bytes | None
    headers: RawHeaders


class NewRecords:
    """Returns the records of a topic after its ends, without ever waiting. Used by one thread only."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings, self._topic = settings, clients.topic_name(settings, topic)
        self._next: dict[int, int] = {}
        self._connect()

    def start(self, ends: list[Retained]) -> None:
        """Reads from these ends on; the first call counts."""
        if not self._next:
            self._next = {number: kept.end for number, kept in enumerate(ends)}
            self._assign()

    def poll(self) -> SeenRecord | None:
        """The next record that was already received; None where there is none."""
        if self._watchdog.gone:
            self._consumer.close()
            self._connect()
            self._assign()
        while (message := self._consumer.poll(0)) is not None:
            if message.error() is None:
                partition, offset = message.partition() or 0, message.offset() or 0
                self._next[partition] = offset + 1
                return SeenRecord(partition, offset, message.key(), message.headers() or ())  # type: ignore[arg-type]  # pairs
        return None

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()

    def _connect(self) -> None:
        self._watchdog = Watchdog()
        options = {
            "fetch.wait.max.ms": 2000,
            "error_cb": lambda error: None,
        }  # other clients report that Kafka is unreachable
        self._consumer = clients.consumer(self._settings, "new-records", options, self._watchdog)

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, *place) for place in self._next.items()])
