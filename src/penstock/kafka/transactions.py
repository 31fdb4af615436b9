"""A partition of a table that one task owns: written in transactions, read when the task takes it over.

The transactional id belongs to the partition, so that a task that was replaced but still runs is fenced by Kafka the
next time it writes, and ends. A record that Kafka refuses, such as one that is too large, is left out and reported:
retrying it for ever would block everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from penstock.contract.records import Unreadable
from penstock.kafka import clients
from penstock.kafka.clients import describe_error
from penstock.kafka.table import text_key
from penstock.kafka.tail import fetch_metadata
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.observability.metrics import REFUSED_RECORDS
from penstock.settings import Settings

log = structlog.get_logger()

FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.FENCED_INSTANCE_ID}
)
REFUSALS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
"""Errors for a record that Kafka will always refuse."""

TRY_SECONDS = 10.0
BACK_OFF_SECONDS = 0.5
LARGEST_BYTES = 16 * 1024 * 1024
"""Before compression; Kafka's own limit applies after it."""

OPTIONS = {
    # How long Kafka may be unreachable without this task counting as dead; a successor does not wait for it.
    "transaction.timeout.ms": 600_000,
    # Records are sent by the commit, which does not wait for the linger: in one request, not in many.
    "linger.ms": 100,
    "compression.type": "lz4",
    "message.max.bytes": LARGEST_BYTES,
    "queue.buffering.max.messages": 500_000,
}


class Fenced(RuntimeError):
    """Another task owns the partition now; this one must end without writing anything more."""


class StoppedWaiting(RuntimeError):
    """Stopped while Kafka was unreachable."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a flush."""

    topic: str
    key: str
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes before compression."""
        return len(self.key) + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The newest record of a key."""

    message: Message
    value: bytes


class Trying(IntEnum):
    """How a transaction is tried: first as fast as possible, after a failure so that the refused record is found."""

    TOGETHER = 0
    CONFIRMED = 1
    """The delivery of each record is confirmed, which costs time."""
    ALONE = 2
    """Each record is a batch of its own: Kafka refuses whole batches, even if each record would pass alone."""


Without = Callable[[list[Entry], Entry], list[Entry]]
"""The entries that may still be written without one that Kafka refuses."""


class TransactionalPartition:
    """One partition. Every method blocks: call from a thread."""

    def __init__(self, settings: Settings, role: str, partition: int, own: Mapping[str, object] | None = None) -> None:
        self.partition = partition
        self.stop_waiting = threading.Event()
        self._settings, self._role = settings, role
        self._opened = False
        self._broken = False
        """Whether a transaction was left open: such a producer can only be dropped."""
        self._refused: dict[tuple[str, str], int] = {}
        """Topic and key of records that Kafka refused, and their sizes: larger ones are not tried again."""
        ident = f"{settings.topic_prefix}-{role}-{partition}"
        options = {**OPTIONS, **(own or {}), "transactional.id": ident, "error_cb": self._warn_unreachable}
        self._producer = clients.producer(settings, role, options, ending_process())

    def _warn_unreachable(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # other errors are repeated every second
            log.warning("Kafka is unreachable", partition=self.partition, error=describe_error(error))

    def open(self) -> None:
        """Takes the partition over, once: a task that had it is fenced from here on."""
        while not self._opened:
            try:
                self._producer.init_transactions(TRY_SECONDS)
                self._opened = True
            except KafkaException as error:
                self._raise_or_wait(error.args[0])

    def load(self, topic: str) -> dict[str, StoredRecord]:
        """The newest record of each key, as last committed. To be called after `open`."""
        return load_partition(self._settings, self._role, topic, self.partition, self.stop_waiting)

    def commit(self, entries: list[Entry], without: Without) -> None:
        """Writes all entries or none, except those that Kafka refuses for good.

        Waits while Kafka is unreachable; raises Fenced if another task owns the partition.
        """
        left, trying = self._without_refused(entries, without), Trying.TOGETHER
        while True:
            refused: list[Entry] = []
            try:
                self._producer.begin_transaction()
                for entry in left:
                    self._produce(entry, refused, trying)
                self._finish()
                return
            except KafkaException as error:
                self._check_fenced(error.args[0])
                self._abort()
                if len(refused) == 1:
                    self._note_refused(refused[0])
                    left = without(left, refused[0])
                elif refused:
                    trying = Trying.ALONE
                else:
                    trying = max(trying, Trying.CONFIRMED)
                    self._wait(error.args[0])

    def look_after(self) -> None:
        """To be called now and then, from any thread: serves the callbacks of the client."""
        self._producer.poll(0)

    def close(self) -> None:
        """Closes the connection; nothing is written any more."""
        self.stop_waiting.set()
        if not self._broken:
            self._producer.close()

    def _produce(self, entry: Entry, refused: list[Entry], trying: Trying) -> None:
        confirm: dict[str, Any] = {}
        if trying is not Trying.TOGETHER:
            confirm = {"on_delivery": partial(_note_refusal, entry, refused)}
        name = clients.topic_name(self._settings, entry.topic)
        while True:
            try:
                self._producer.produce(name, partition=self.partition, key=entry.key, value=entry.value, **confirm)
                break
            except BufferError:
                self._producer.poll(0.1)
                self._check_stopped()
            except KafkaException as error:
                _note_refusal(entry, refused, error.args[0], None)
                raise
        if trying is Trying.ALONE:
            self._producer.flush(TRY_SECONDS)

    def _without_refused(self, entries: list[Entry], without: Without) -> list[Entry]:
        """Leaves out records that Kafka has refused before."""
        if not self._refused:
            return entries
        left = entries
        for entry in entries:
            limit = self._refused.get((entry.topic, entry.key))
            if limit is not None and entry.size >= limit:
                REFUSED_RECORDS.bind(entry.topic).inc()
                left = without(left, entry)
            elif limit is not None:
                del self._refused[entry.topic, entry.key]
        return left

    def _note_refused(self, entry: Entry) -> None:
        self._refused[entry.topic, entry.key] = entry.size
        REFUSED_RECORDS.bind(entry.topic).inc()
        log.error(
            "Kafka refuses a record, and it is left out",
            topic=entry.topic,
            partition=self.partition,
            key=entry.key,
            bytes=entry.size,
        )

    def _finish(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(TRY_SECONDS)
                return
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                if problem.fatal() or problem.txn_requires_abort() or not problem.retriable():
                    raise
                self._raise_or_wait(problem)

    def _abort(self) -> None:
        while True:
            try:
                self._producer.abort_transaction(TRY_SECONDS)
                return
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                if problem.code() == KafkaError._STATE:
                    return  # there was no transaction to abort
                self._raise_or_wait(problem)

    def _raise_or_wait(self, problem: KafkaError) -> None:
        """Raises if the error is final; otherwise waits a little before the next try."""
        self._check_fenced(problem)
        self._wait(problem)

    def _check_fenced(self, problem: KafkaError) -> None:
        if problem.fatal() or problem.code() in FENCED:
            self._broken = True
            raise Fenced(f"partition {self.partition} belongs to another task: {describe_error(problem)}")

    def _wait(self, problem: KafkaError) -> None:
        log.warning("a transaction is not committed yet", partition=self.partition, error=describe_error(problem))
        self._check_stopped()
        self.look_after()
        self.stop_waiting.wait(BACK_OFF_SECONDS)

    def _check_stopped(self) -> None:
        if self.stop_waiting.is_set():
            self._broken = True
            raise StoppedWaiting(
                "stopped while Kafka was unreachable; what was done since the last flush may be repeated"
            )


def load_partition(
    settings: Settings, role: str, topic: str, partition: int, stop_waiting: threading.Event
) -> dict[str, StoredRecord]:
    """The newest record of each key of a partition, as last committed. Raises StoppedWaiting."""
    options = {"enable.partition.eof": True, "fetch.wait.max.ms": 20, "isolation.level": "read_committed"}
    # It may be closed while it still logs in at the coordinator, which librdkafka would log as a failure.
    options["log_level"] = 2
    consumer = clients.consumer(settings, role, options, ending_process())
    found: dict[str, StoredRecord] = {}
    try:
        name = clients.topic_name(settings, topic)
        fetch_metadata(consumer, name)
        consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING)])
        while not stop_waiting.is_set():
            message = consumer.poll(1.0)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                _take(message, found)
            elif problem.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                log.warning(
                    "a topic cannot be read",
                    topic=topic,
                    partition=partition,
                    error=describe(problem),
                )
    finally:
        consumer.close()
    raise StoppedWaiting(f"stopped while reading {topic}")


def _take(message: Message, found: dict[str, StoredRecord]) -> None:
    try:
        key, value = text_key(message), message.value()
    except Unreadable as problem:
        report_unreadable(message, problem)
        return
    if value is None:
        found.pop(key, None)
    else:
        found[key] = StoredRecord(message, bytes(value))


def _note_refusal(entry: Entry, refused: list[Entry], problem: KafkaError | None, _: Message | None) -> None:
    if problem is not None and problem.code() in REFUSALS:
        refused.append(entry)
