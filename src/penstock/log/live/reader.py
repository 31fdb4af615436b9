"""Topics as they grow, from where they end at this moment: for people who watch, not for work that misses nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.log import clients
from penstock.log.ranges import LogRecord, record_of
from penstock.log.topic_ends import KAFKA_SECONDS, KafkaAway
from penstock.observability.logs import describe
from penstock.settings import Settings

AT_ONCE = 2000
READING = {
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 16 * 1024,
    "log_level": 0,  # a person reads what comes; what matters is told in a sentence
}


class LiveReader:
    """Reads what is added to some topics. Used by one thread only."""

    def __init__(self, consumer: Consumer, topics: Mapping[str, str], doubts: list[KafkaError]) -> None:
        """Takes the topics by their names in Kafka; `doubts` gets what the client says between two polls."""
        self._consumer, self._topics, self._doubts = consumer, topics, doubts
        places = []
        try:
            for topic in topics:
                known = consumer.list_topics(topic, timeout=KAFKA_SECONDS).topics[topic]
                for number in sorted(known.partitions):
                    _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=KAFKA_SECONDS)
                    places.append(TopicPartition(topic, number, end))
        except KafkaException as error:
            raise KafkaAway(describe(error)) from error
        consumer.assign(places)

    def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
        """What has come, each with its topic; nothing where nothing came within so many seconds. Raises KafkaAway."""
        first = self._consumer.poll(seconds)
        if first is None:
            self._check()
            return []
        return [
            (self._topics[message.topic() or ""], record_of(message))
            for message in [first, *self._consumer.consume(AT_ONCE, 0)]
            if message.error() is None
        ]

    def _check(self) -> None:
        """A client whose brokers are all gone says so once, and then tries for ever; a person wants to know."""
        if any(doubt.code() == KafkaError._ALL_BROKERS_DOWN for doubt in self._doubts):
            try:
                self._consumer.list_topics(timeout=KAFKA_SECONDS)
            except KafkaException as error:
                raise KafkaAway(describe(error)) from error
        self._doubts.clear()


@contextmanager
def following(settings: Settings, *topics: str) -> Iterator[LiveReader]:
    """A reader of what comes from now on. Raises KafkaAway."""
    doubts: list[KafkaError] = []
    consumer = clients.consumer(settings, "live", {**READING, "error_cb": doubts.append}, watchdog=None)
    try:
        yield LiveReader(consumer, {clients.topic_name(settings, topic): topic for topic in topics}, doubts)
    finally:
        consumer.close()
