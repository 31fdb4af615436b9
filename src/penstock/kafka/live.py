"""Follows topics from their present ends: for people who watch, who may miss records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.contract import attempts, records
from penstock.contract.attempts import AttemptRecord
from penstock.contract.records import Unreadable
from penstock.events import kafka_binding
from penstock.events.event import CloudEvent, MalformedEvent
from penstock.filters.evaluate import matches_event
from penstock.filters.predicate import Predicate
from penstock.kafka import clients
from penstock.kafka.ranges import LogRecord, record_of
from penstock.kafka.topic_ends import KAFKA_SECONDS, KafkaAway
from penstock.observability.logs import describe
from penstock.settings import Settings

AT_ONCE = 2000
READING = {
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 16 * 1024,
    "log_level": 0,  # a person reads the output; problems are reported by exceptions
}


class LiveReader:
    """Reads what is added to some topics. Used by one thread only."""

    def __init__(self, consumer: Consumer, topics: Mapping[str, str], errors: list[KafkaError]) -> None:
        """Takes the topics by their names in Kafka; `errors` gets the client's errors between two polls."""
        self._consumer, self._topics, self._errors = consumer, topics, errors
        self._next: dict[tuple[str, int], int] = {}
        """By topic and partition, the offset of the next record."""
        self._go_to_ends()

    def _go_to_ends(self) -> None:
        try:
            for topic in self._topics:
                known = self._consumer.list_topics(topic, timeout=KAFKA_SECONDS).topics[topic]
                for number in known.partitions:
                    found = TopicPartition(topic, number)
                    self._next[topic, number] = self._consumer.get_watermark_offsets(found, timeout=KAFKA_SECONDS)[1]
        except KafkaException as error:
            raise KafkaAway(describe(error)) from error
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in sorted(self._next.items())])

    def leave_out(self, seconds: float) -> Counter[str]:
        """Reads nothing for so many seconds, and continues where the topics end then. Returns how many records of each
        topic were skipped, by offsets. Raises KafkaAway."""
        before = dict(self._next)
        self._consumer.unassign()
        time.sleep(seconds)
        self._go_to_ends()
        left_out: Counter[str] = Counter()
        for place, offset in self._next.items():
            left_out[self._topics[place[0]]] += max(0, offset - before.get(place, offset))
        return left_out

    def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
        """The new records, each with its topic; none if there were none within so many seconds. Raises KafkaAway."""
        first = self._consumer.poll(seconds)
        if first is None:
            self._check()
            return []
        found = [one for one in (first, *self._consumer.consume(AT_ONCE, 0)) if one.error() is None]
        for message in found:
            self._next[message.topic() or "", message.partition() or 0] = (message.offset() or 0) + 1
        return [(self._topics[message.topic() or ""], record_of(message)) for message in found]

    def _check(self) -> None:
        """A client without any broker reports that once and then retries for ever; a person needs an error."""
        if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in self._errors):
            try:
                self._consumer.list_topics(timeout=KAFKA_SECONDS)
            except KafkaException as error:
                raise KafkaAway(describe(error)) from error
        self._errors.clear()


@contextmanager
def following(settings: Settings, *topics: str) -> Iterator[LiveReader]:
    """A reader of records from now on. Raises KafkaAway."""
    errors: list[KafkaError] = []
    consumer = clients.consumer(settings, "live", {**READING, "error_cb": errors.append}, watchdog=None)
    try:
        yield LiveReader(consumer, {clients.topic_name(settings, topic): topic for topic in topics}, errors)
    finally:
        consumer.close()


PER_SECOND = 50


class SampleLimit:
    """Lets through as many records per second as a person can read. Used by one thread only."""

    def __init__(
        self,
        report: Callable[[int, int], None],
        limit: int = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Calls `report` after each second in which something was left out: how many were let through, of how many."""
        self._report, self._limit, self._clock = report, limit, clock
        self._second, self._seen = int(clock()), 0

    def admits(self) -> bool:
        """Whether another one may be shown."""
        self.turn()
        self._seen += 1
        return self._seen <= self._limit

    @property
    def is_full(self) -> bool:
        """Whether nothing more is shown within this second."""
        return self._seen >= self._limit and int(self._clock()) == self._second

    def leave_out(self, count: int) -> None:
        """Counts records that were skipped unread."""
        self._seen += count

    def turn(self) -> None:
        """To be called now and then: reports what was left out in the last second."""
        second = int(self._clock())
        if second != self._second:
            if self._seen > self._limit:
                self._report(self._limit, self._seen)
            self._second, self._seen = second, 0


@dataclass(frozen=True)
class LiveSelection:
    """Selects and decodes the events, or attempts, to show."""

    predicate: Predicate
    uid: str | None = None
    """Of the Broker or Channel, or of the route; None: of any."""

    def event(self, record: LogRecord) -> CloudEvent | None:
        """The event of a record of `penstock.events`, if it is selected."""
        if self.uid is not None and dict(record.headers).get(records.TARGET) != self.uid.encode():
            return None
        try:
            event = kafka_binding.from_headers(record.headers, record.value)
        except MalformedEvent:
            return None  # a marker, or a foreign record
        return event if matches_event(self.predicate, event) else None

    def attempt(self, record: LogRecord) -> AttemptRecord | None:
        """The attempt of a record of `penstock.attempts`, if it is selected."""
        try:
            attempt = attempts.decode(record.value or b"")
        except Unreadable:
            return None
        if self.uid is not None and attempt.route != self.uid:
            return None
        seen = CloudEvent({"specversion": "1.0", "id": attempt.id, "source": attempt.source, "type": attempt.type})
        return attempt if matches_event(self.predicate, seen) else None
