"""Cursors on disk: one transactional producer per partition.

The transactional id belongs to the partition, so that a task that was replaced but still runs is fenced by Kafka the
next time it writes, and ends. Records of attempts go into the same transaction: what the cursors say was done and
what these records tell cannot part.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import msgspec
import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from penstock.contract import topics
from penstock.dispatcher.cursors import keys
from penstock.dispatcher.cursors import stage_payload as stage_payloads
from penstock.dispatcher.cursors.cursor import Cursor, restore
from penstock.dispatcher.cursors.stage_payload import StagePayload
from penstock.dispatcher.matched.tail import get_to_know
from penstock.log.watchdog import watched

log = structlog.get_logger()

FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.FENCED_INSTANCE_ID}
)
TRY_SECONDS = 10.0
BACK_OFF_SECONDS = 0.5


class Fenced(RuntimeError):
    """Another task owns the partition now; this one must end without writing anything more."""


class GivenUp(RuntimeError):
    """Stopped while Kafka was away."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a flush."""

    topic: str
    key: str
    value: bytes | None


@dataclass
class Restored:
    """What the topic says about a partition."""

    tail: int | None = None
    cursors: dict[str, Cursor] = field(default_factory=dict)
    payloads: dict[tuple[str, int], StagePayload] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


class CursorStore:
    """The cursors of one partition. Every method blocks: call from a thread."""

    def __init__(self, bootstrap: str, partition: int) -> None:
        self.partition = partition
        self.given_up = threading.Event()
        self._bootstrap = bootstrap
        self._broken = False
        """Whether a transaction was left as it was: such a producer can only be dropped."""
        self._producer = Producer(
            watched(
                {
                    "bootstrap.servers": bootstrap,
                    "transactional.id": f"penstock-cursors-{partition}",
                    # As long as Kafka may be away without this task counting as dead; a successor does not wait for it.
                    "transaction.timeout.ms": 600_000,
                    # Sent when the transaction is committed, which does not wait for it: in one request, not in many.
                    "linger.ms": 100,
                    "compression.type": "lz4",
                    # Cursors of full routes are long; they are compressed before the broker's limit counts.
                    "message.max.bytes": 16 * 1024 * 1024,
                    "queue.buffering.max.messages": 500_000,
                    "error_cb": self._away,
                }
            )
        )

    def _away(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # the others repeat themselves every second
            log.warning("Kafka is away", partition=self.partition, error=error.str())

    def open(self) -> None:
        """Takes the partition over: whoever had it is fenced from here on."""
        while True:
            try:
                self._producer.init_transactions(TRY_SECONDS)
                return
            except KafkaException as error:
                self._judge(error.args[0])

    def load(self, changed: set[Cursor]) -> Restored:
        """What was last committed, as cursors that note changes in `changed`. Call after `open`: nobody else writes."""
        consumer = Consumer(
            watched(
                {
                    "bootstrap.servers": self._bootstrap,
                    "group.id": "penstock-dispatcher",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 20,
                    "isolation.level": "read_committed",
                }
            )
        )
        values: dict[str, bytes] = {}
        try:
            get_to_know(consumer, topics.CURSORS)
            consumer.assign([TopicPartition(topics.CURSORS, self.partition, OFFSET_BEGINNING)])
            while not self.given_up.is_set():
                message = consumer.poll(1.0)
                if message is None:
                    continue
                problem = message.error()
                if problem is not None:
                    if problem.code() == KafkaError._PARTITION_EOF:
                        break
                    log.warning("reading cursors", partition=self.partition, error=str(problem))
                    continue
                key, value = bytes(message.key() or b"").decode(), message.value()
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = bytes(value)
        finally:
            consumer.close()
        if self.given_up.is_set():
            raise GivenUp("stopped while reading cursors")
        return understand(values, self.partition, changed)

    def commit(self, entries: list[Entry]) -> None:
        """Writes all entries or none. Waits for a Kafka that is away; raises Fenced once the partition is another's."""
        while True:
            try:
                self._producer.begin_transaction()
                for entry in entries:
                    self._produce(entry)
                self._finish()
                return
            except KafkaException as error:
                self._judge(error.args[0])
                self._abort()

    def look_after(self) -> None:
        """To be called now and then, from any thread: hears what the client has to say about itself."""
        self._producer.poll(0)

    def close(self) -> None:
        """Lets go of the connection; nothing is written any more."""
        self.given_up.set()
        if not self._broken:
            self._producer.close()

    def _produce(self, entry: Entry) -> None:
        while True:
            try:
                self._producer.produce(entry.topic, partition=self.partition, key=entry.key, value=entry.value)
                return
            except BufferError:
                self._producer.poll(0.1)
                self._check_given_up()

    def _finish(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(TRY_SECONDS)
                return
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                if problem.fatal() or problem.txn_requires_abort() or not problem.retriable():
                    raise
                self._judge(problem)

    def _abort(self) -> None:
        while True:
            try:
                self._producer.abort_transaction(TRY_SECONDS)
                return
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                if problem.code() == KafkaError._STATE:
                    return  # there was no transaction to abort
                self._judge(problem)

    def _judge(self, problem: KafkaError) -> None:
        """Raises what ends the task; otherwise waits a little before the next try."""
        if problem.fatal() or problem.code() in FENCED:
            self._broken = True
            raise Fenced(f"partition {self.partition} belongs to another task: {problem.str()}")
        log.warning("cursors are not written yet", partition=self.partition, error=str(problem))
        self._check_given_up()
        self.look_after()
        self.given_up.wait(BACK_OFF_SECONDS)

    def _check_given_up(self) -> None:
        if self.given_up.is_set():
            self._broken = True
            raise GivenUp("stopped while Kafka was away; what was done since the last flush may be repeated")


def understand(values: dict[str, bytes], partition: int, changed: set[Cursor]) -> Restored:
    """The newest values of a partition's keys as cursors. One that cannot be read is named and left out."""
    restored = Restored()
    for key, value in values.items():
        try:
            if key == keys.tail_key(partition):
                restored.tail = int(value)
            elif (ident := keys.parse_payload(key)) is not None:
                restored.payloads[ident] = stage_payloads.decode(value)
            elif (route := keys.parse_cursor(key)) is not None:
                restored.cursors[route] = restore(route, value, changed)
            else:
                restored.unreadable.append(key)
        except (ValueError, msgspec.MsgspecError):
            restored.unreadable.append(key)
    return restored
