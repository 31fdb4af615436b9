"""The tail: a thread that reads `penstock.matched` as it grows and hands batches to the task's loop.

Batches are bounded in number and size; a loop that is busy slows the thread down, and Kafka keeps the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from penstock.contract import topics
from penstock.dispatcher.matched.record import Matched, Unreadable, passed_over, read
from penstock.log.watchdog import watched

log = structlog.get_logger()

BATCH = 256
PENDING_BATCHES = 4
PREFETCH_KIB = 8192
PREFETCH_RECORDS = 2000
"""Per partition. In memory a small record takes several times its size, so that a limit of bytes alone says little."""

Batch = list[Matched]


def consumer_settings(bootstrap: str) -> dict[str, object]:
    """Settings of a consumer without group that reads what it is assigned."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "penstock-dispatcher",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 2000,
        "fetch.queue.backoff.ms": 2,
        "fetch.error.backoff.ms": 100,
        "queued.min.messages": PREFETCH_RECORDS,
        "queued.max.messages.kbytes": PREFETCH_KIB,
        "fetch.max.bytes": PREFETCH_KIB * 1024,
        "reconnect.backoff.max.ms": 1000,
    }


def parse(message: Message, unreadable: Callable[[int, int, str], None]) -> Matched:
    """The record of a message; one that cannot be read is reported and stands there as a record for nobody."""
    partition, offset = int(message.partition() or 0), int(message.offset() or 0)
    try:
        raw = message.headers()
        pairs = list(raw.items()) if isinstance(raw, dict) else raw
        return read(partition, offset, message.timestamp()[1], pairs, message.value())  # type: ignore[arg-type]  # header values are bytes
    except Unreadable as problem:
        unreadable(partition, offset, str(problem))
        return passed_over(partition, offset)


def get_to_know(consumer: Consumer, topic: str) -> None:
    """Asks for the topic: an assignment to one that the client has not heard of yet starts half a second late."""
    with contextlib.suppress(KafkaException):  # Kafka is away: then it does not matter
        consumer.list_topics(topic, 5)


class TailReader:
    """Reads the given partitions from the given offsets on (None: from the beginning)."""

    def __init__(
        self,
        bootstrap: str,
        starts: Mapping[int, int | None],
        deliver: Callable[[Batch], None],
        unreadable: Callable[[int, int, str], None],
    ) -> None:
        self._settings = consumer_settings(bootstrap)
        self._starts, self._deliver, self._unreadable = starts, deliver, unreadable
        self._loop = asyncio.get_running_loop()
        self._slots = threading.Semaphore(PENDING_BATCHES)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail of matched", daemon=True)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; blocks until the thread is gone."""
        self._stop.set()
        self._slots.release()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        consumer = Consumer(watched(self._settings))
        try:
            get_to_know(consumer, topics.MATCHED)
            consumer.assign(
                [
                    TopicPartition(topics.MATCHED, partition, OFFSET_BEGINNING if start is None else start)
                    for partition, start in self._starts.items()
                ]
            )
            while not self._stop.is_set():
                first = consumer.poll(0.2)
                if first is None:
                    continue
                # What is already here is taken at once; waiting to fill a batch would only add latency.
                batch = self._read([first, *consumer.consume(BATCH - 1, 0)])
                if batch:
                    self._slots.acquire()
                    if not self._stop.is_set():
                        self._loop.call_soon_threadsafe(self._hand_over, batch)
        finally:
            consumer.close()

    def _read(self, messages: list[Message]) -> Batch:
        batch = []
        for message in messages:
            problem = message.error()
            if problem is not None:
                log.warning("reading matched events", error=str(problem))
                continue
            batch.append(parse(message, self._unreadable))
        return batch

    def _hand_over(self, batch: Batch) -> None:
        try:
            self._deliver(batch)
        finally:
            self._slots.release()
