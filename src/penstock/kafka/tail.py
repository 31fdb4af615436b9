"""The tail of a topic: a thread that reads it as it grows and hands batches to an event loop.

Batches are bounded in number and size; a loop that is busy slows the thread down, and Kafka keeps the rest. The caller
gives the function that decodes a record.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from penstock.contract.records import Unreadable
from penstock.kafka import clients
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import OwnedThread, TaskScope
from penstock.settings import Settings

log = structlog.get_logger()

BATCH = 256
PENDING_BATCHES = 4
PREFETCH_KIB = 8192
PREFETCH_RECORDS = 2000
"""Per partition. In memory a small record takes several times its size, so that a limit of bytes alone says little."""

READING = {
    "fetch.wait.max.ms": 2000,
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": PREFETCH_RECORDS,
    "queued.max.messages.kbytes": PREFETCH_KIB,
    "fetch.max.bytes": PREFETCH_KIB * 1024,
}

RawHeaders = Sequence[tuple[str, bytes | None]]
T = TypeVar("T")


@dataclass(frozen=True)
class Decoder(Generic[T]):
    """How the caller decodes the records of a topic."""

    read: Callable[[int, int, int, RawHeaders | None, bytes | None], T]
    """The record from its partition, offset, timestamp, headers and value. Raises Unreadable."""
    unreadable: Callable[[int, int], T]
    """A substitute for a record that cannot be read, so that the gap is not treated as a loss."""


def decode(message: Message, decoder: Decoder[T]) -> T:
    """The record of a message; one that cannot be read is reported and replaced by a substitute."""
    partition, offset = message.partition() or 0, message.offset() or 0
    try:
        return decoder.read(partition, offset, message.timestamp()[1], _headers(message), message.value())
    except Unreadable as problem:
        report_unreadable(message, problem)
        return decoder.unreadable(partition, offset)


def _headers(message: Message) -> RawHeaders | None:
    try:
        return message.headers()  # type: ignore[return-value]  # pairs of text and bytes
    except (ValueError, SystemError) as error:  # names that are not text
        raise Unreadable(f"its headers: {describe(error)}") from error


def fetch_metadata(consumer: Consumer, topic: str) -> None:
    """Fetches the metadata of the topic: without it an assignment takes effect half a second late."""
    with contextlib.suppress(KafkaException):  # Kafka is unreachable: then it does not matter
        consumer.list_topics(topic, 5)


class TailReader(Generic[T]):
    """Reads the given partitions from the given offsets on (None: from the beginning)."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        starts: Mapping[int, int | None],
        decoder: Decoder[T],
        *,
        deliver: Callable[[list[T]], None],
        scope: TaskScope,
    ) -> None:
        self._settings, self._topic, self._starts = settings, clients.topic_name(settings, topic), starts
        self._decoder, self._deliver, self._scope = decoder, deliver, scope
        self._slots = threading.Semaphore(PENDING_BATCHES)
        self._stop = threading.Event()
        self._thread = OwnedThread(f"tail of {topic}", self._run, scope.fail)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stops reading; blocks until the thread has ended."""
        self._stop.set()
        self._slots.release()
        self._thread.join(5)

    def _run(self) -> None:
        consumer = clients.consumer(self._settings, "tail", READING, ending_process())
        try:
            fetch_metadata(consumer, self._topic)
            consumer.assign([TopicPartition(self._topic, number, _offset(at)) for number, at in self._starts.items()])
            while not self._stop.is_set():
                first = consumer.poll(0.2)
                if first is None:
                    continue
                # Takes what was already received; waiting to fill a batch would only add latency.
                batch = self._read([first, *consumer.consume(BATCH - 1, 0)])
                if batch:
                    self._slots.acquire()
                    if not self._stop.is_set():
                        self._scope.hand_over(self._hand_over, batch)
        finally:
            consumer.close()

    def _read(self, messages: list[Message]) -> list[T]:
        batch = []
        for message in messages:
            problem = message.error()
            if problem is not None:
                log.warning("a topic cannot be read", topic=self._topic, error=describe(problem))
                continue
            batch.append(decode(message, self._decoder))
        return batch

    def _hand_over(self, batch: list[T]) -> None:
        try:
            self._deliver(batch)
        finally:
            self._slots.release()


def _offset(start: int | None) -> int:
    """The offset to begin at. librdkafka gives numbers below zero another meaning, such as the end."""
    return OFFSET_BEGINNING if start is None or start < 0 else start
