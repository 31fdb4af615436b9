"""Reading topics from given offsets up to their present ends: for queries, not for following.

Only committed records are read. It waits only for Kafka itself, and not for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.kafka import clients
from penstock.kafka.topic_ends import KAFKA_SECONDS, KafkaAway, Retained
from penstock.observability.logs import describe
from penstock.settings import Settings

AT_ONCE = 1000
WAIT_SECONDS = 0.1
"""How long to wait for a full chunk: the ends of transactions have offsets, but are never returned as records."""
UNRESPONSIVE_SECONDS = 15.0
"""Time without a record after which Kafka counts as unreachable."""

READING = {
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 32 * 1024,
    "error_cb": lambda error: None,  # every request reports its own failure
}


class RecordsGone(KafkaAway):
    """Retention has removed the next records to read."""


class LogRecord(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    at_ms: int
    """Kafka's timestamp, Unix milliseconds."""
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None


class RangeReader:
    """Reads ranges of topics. Used by one thread only."""

    def __init__(self, settings: Settings, passing_over_gone: bool = True) -> None:
        """Records that retention removes meanwhile are skipped, or else raise RecordsGone."""
        self._settings = settings
        own = READING if passing_over_gone else {**READING, "auto.offset.reset": "error"}
        self._consumer: Consumer = clients.consumer(settings, "ranges", own, watchdog=None)

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()

    def retained(self, topic: str) -> dict[int, Retained]:
        """What each partition holds, up to the last committed record; nothing for a topic that does not exist."""
        name = clients.topic_name(self._settings, topic)
        try:
            known = self._consumer.list_topics(name, timeout=KAFKA_SECONDS).topics[name]
            partitions = sorted(known.partitions) if known.error is None else []
            found = {number: self._consumer.get_watermark_offsets(_place(name, number)) for number in partitions}
        except KafkaException as error:
            raise KafkaAway(describe(error)) from error
        return {number: Retained(int(low), int(high)) for number, (low, high) in found.items()}

    def since(self, topic: str, at_ms: int) -> dict[int, int]:
        """The first offset of each partition that was written at this time (Unix milliseconds) or later; its end where
        nothing was."""
        name = clients.topic_name(self._settings, topic)
        kept = self.retained(topic)
        try:
            wanted = [_place(name, number, max(0, at_ms)) for number in kept]
            found = self._consumer.offsets_for_times(wanted, timeout=KAFKA_SECONDS) if wanted else []
        except KafkaException as error:
            raise KafkaAway(describe(error)) from error
        # The offset is -1 where no record is that new.
        return {one.partition: one.offset if one.offset >= 0 else kept[one.partition].end for one in found}

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        """The records from `starts` up to, not including, `ends`, in the order of each partition."""
        ahead = {number: end for number, end in ends.items() if starts.get(number, 0) < end}
        if not ahead:
            return
        name = clients.topic_name(self._settings, topic)
        self._consumer.assign([_place(name, number, starts.get(number, 0)) for number in ahead])
        try:
            received_at = time.monotonic()
            at = {number: starts.get(number, 0) for number in ahead}
            while ahead:
                left = sum(end - at[number] for number, end in ahead.items())
                messages = self._consumer.consume(min(AT_ONCE, left), WAIT_SECONDS)
                if messages:
                    received_at = time.monotonic()
                elif time.monotonic() - received_at > UNRESPONSIVE_SECONDS:
                    raise KafkaAway(f"{topic} cannot be read")
                records = [record for message in messages if (record := _taken(message, ahead)) is not None]
                at |= {record.partition: record.offset + 1 for record in records}
                if records:
                    yield records
        finally:
            self._consumer.unassign()


def _place(topic: str, partition: int, offset: int | None = None) -> TopicPartition:
    return TopicPartition(topic, partition) if offset is None else TopicPartition(topic, partition, offset)


def _taken(message: Message, ahead: dict[int, int]) -> LogRecord | None:
    """The record of a message that is wanted. Partitions that have been read to their end are removed from `ahead`."""
    partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
    end = ahead.get(partition)
    if error is not None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise RecordsGone(describe(error))
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaAway(describe(error))
        ahead.pop(partition, None)
        return None
    if end is None or offset >= end:
        ahead.pop(partition, None)
        return None
    if offset == end - 1:
        del ahead[partition]
    return record_of(message)


def record_of(message: Message) -> LogRecord:
    """The record of a message that holds one."""
    key, value = message.key(), message.value()
    try:
        headers = message.headers() or ()
    except (ValueError, SystemError):  # names that are not text: a foreign record
        headers = ()
    place = message.partition() or 0, message.offset() or 0
    return LogRecord(*place, message.timestamp()[1], _bytes(key), headers, _bytes(value))  # type: ignore[arg-type]


def _bytes(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw
