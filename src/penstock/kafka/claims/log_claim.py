"""A claim that is decided by the records of `penstock.claims`: one thread reads, writes, and keeps the time.

It stands by until the role is free, takes it, renews it, and tells when it is lost. Whoever is told so must end at
once, without another word: another one may begin.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.contract import claims, topics
from penstock.contract.unreadable import Unreadable
from penstock.kafka import clients
from penstock.kafka.claims.claimant import Claimant, Write
from penstock.kafka.claims.rules import now
from penstock.kafka.table import text_key
from penstock.kafka.tail import get_to_know
from penstock.kafka.threads import Failed, OwnedThread
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import ending_process
from penstock.settings import Settings

log = structlog.get_logger()

POLL_SECONDS = 0.25
RELEASE_SECONDS = 3.0

READING = {"enable.partition.eof": True, "fetch.wait.max.ms": 500}
WRITING = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 10_000}


class LogClaim:
    """The claim of one process to a role. `taken` is told the epoch, `lost` why; both from the claim's thread."""

    def __init__(
        self,
        settings: Settings,
        role: str,
        instance: str,
        *,
        taken: Callable[[int], None],
        lost: Callable[[str], None],
        failed: Failed,
    ) -> None:
        self._settings, self._role = settings, role
        self._topic = clients.topic_name(settings, topics.CLAIMS)
        self._taken, self._lost = taken, lost
        self._claimant = Claimant(role, instance, now())
        self._ending = threading.Event()
        self._thread = OwnedThread(f"claim to {role}", self._run, failed)

    def start(self) -> None:
        """Begins to stand by."""
        self._thread.start()

    def release(self) -> None:
        """Gives the role back, so that another has it at once; call when nothing of its work goes on any more."""
        self._ending.set()
        self._thread.join(RELEASE_SECONDS + 1)

    def _run(self) -> None:
        consumer = clients.consumer(self._settings, "claims", READING, ending_process())
        producer = clients.producer(self._settings, "claims", WRITING, ending_process())
        try:
            get_to_know(consumer, self._topic)
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            self._stand_by(consumer, producer)
            self._say_goodbye(producer)
        finally:
            consumer.close()

    def _stand_by(self, consumer: Consumer, producer: Producer) -> None:
        told = False
        while not self._ending.is_set():
            self._read(consumer)
            why = self._claimant.why_lost(now())
            if why is not None:
                log.error("lost the role", role=self._role, epoch=self._claimant.epoch, why=why)
                self._lost(why)
                return
            if not told and self._claimant.epoch is not None:
                told = True
                log.info("has the role", role=self._role, epoch=self._claimant.epoch)
                self._taken(self._claimant.epoch)
            self._write(producer, self._claimant.turn(now()))
            producer.poll(0)

    def _read(self, consumer: Consumer) -> None:
        message = consumer.poll(POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is None:
                self._take_in(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._claimant.caught_up(now())
            message = consumer.poll(0)

    def _take_in(self, message: Message) -> None:
        try:
            key, value = text_key(message), message.value()
            if value is not None:
                self._claimant.read(key, message.offset() or 0, claims.decode(value), now())
        except Unreadable as problem:
            report_unreadable(message, problem)

    def _write(self, producer: Producer, writes: Iterable[Write]) -> None:
        for write in writes:
            # What is not written does not come back, and that is what counts.
            with contextlib.suppress(BufferError, KafkaException):
                producer.produce(self._topic, key=write.key, value=claims.encode(write.record), partition=0)

    def _say_goodbye(self, producer: Producer) -> None:
        if self._claimant.why_lost(now()) is None:
            self._write(producer, self._claimant.goodbye(now()))
        with contextlib.suppress(BufferError, KafkaException):
            producer.produce(self._topic, key=self._claimant.waiting_key, value=None, partition=0)
        producer.flush(RELEASE_SECONDS)
