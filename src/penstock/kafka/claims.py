"""The claim of a process to a role, decided by the records of `penstock.claims`. One thread reads, writes, keeps time.

A process stands by until the role is free, takes it, renews it, and reports when it is lost; then it must end at once,
because another process may begin. `Claimant` and what it uses are pure: time is passed in.

When a role may be taken from a holder without renewals, and when a holder whose renewals fail must stop:

    holder    renews ----- renews --x (frozen, cut off)          stops acting
                             |------------- 12 s ------------------|
    standby        reads it  |----------------- 13.5 s --------------| takes the role

Both measure on their own clock, from the same record: the holder from the moment before it wrote it, the standby from
the moment after it read it. So the holder stops first, however different the clocks are; only their rates must agree
within a tenth. The clock is one that also runs while a machine sleeps.

If Kafka is unreachable for all, that is not a failure of the holder. So a standby writes too, and takes the role only
if what it writes has been read back at once for some seconds, in which all others could be read as well. The same keeps
a process that was frozen itself from concluding that all others were.

12 s are a little more than Kafka needs to replace a broker that died (9 s until it is considered dead, then another one
leads the partition), so that the end of a broker ends no pipeline unless everything is slow at that moment. 13.5 s
leave 1.5 s to take the role within 15.

What a frozen process does in the milliseconds between its waking and its end is not a matter of time, but of epochs:
routes and cursors are written in transactions that Kafka refuses to the former holder, and what is routed carries the
epoch of its writer.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.contract import claims, topics
from penstock.contract.claims import ClaimRecord, RoleClaims
from penstock.contract.records import Unreadable
from penstock.kafka import clients
from penstock.kafka.table import text_key
from penstock.kafka.tail import fetch_metadata
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.runtime.times import now
from penstock.settings import Settings

log = structlog.get_logger()

RENEW_SECONDS = 1.0
STOP_SECONDS = 12.0
TAKE_SECONDS = 13.5
LIVE_SECONDS = 3.0
"""How long what is written must have been read back at once before missing renewals mean anything."""
PROMPT_SECONDS = 2.0


class Standby:
    """A process that waits for a role."""

    def __init__(self, instance: str, at: float) -> None:
        self._instance = instance
        self._renewed = at
        self._live_since: float | None = None
        self._last_back = at

    def holder_renewed(self, at: float) -> None:
        """A new record of the holder was read."""
        self._renewed = at

    def read_back(self, sent: float, at: float) -> None:
        """A record of its own was read back."""
        if at - sent > PROMPT_SECONDS or at - self._last_back > PROMPT_SECONDS + RENEW_SECONDS:
            self._live_since = None
        if at - sent <= PROMPT_SECONDS:
            self._live_since = at if self._live_since is None else self._live_since
        self._last_back = at

    def may_take(self, ledger: RoleClaims, at: float) -> bool:
        """Whether the role is free, or its holder must have stopped."""
        if ledger.holder is None or ledger.holder == self._instance:
            return True
        live = self._live_since is not None and at - self._last_back <= PROMPT_SECONDS + RENEW_SECONDS
        steady = live and at - (self._live_since or at) >= LIVE_SECONDS
        return steady and at - self._renewed >= TAKE_SECONDS


class ClaimHolder:
    """A process that has a role."""

    def __init__(self, epoch: int, sent: float) -> None:
        self.epoch = epoch
        self._confirmed = sent

    def confirmed(self, sent: float) -> None:
        """A renewal that was sent at that time was read back."""
        self._confirmed = max(self._confirmed, sent)

    def why_lost(self, ledger: RoleClaims, at: float) -> str | None:
        """Why it must stop at once; None where it has the role."""
        if ledger.epoch != self.epoch:
            return f"{ledger.holder} has taken it"
        silent = at - self._confirmed
        if silent >= STOP_SECONDS:
            return f"it could not be renewed for {silent:.1f} s, and another may take it"
        return None


TAKE_AGAIN_SECONDS = 3.0
"""A record that takes the role and was not read back by then is written again."""


@dataclass(frozen=True)
class Write:
    """A record to write."""

    key: str
    record: ClaimRecord


class Claimant:
    """Stands by, has the role, or has lost it."""

    def __init__(self, role: str, instance: str, at: float) -> None:
        self.ledger = RoleClaims()
        self._role, self._instance = role, instance
        self._standby = Standby(instance, at)
        self._holder: ClaimHolder | None = None
        self._behind = True
        self._number = secrets.randbits(40)  # another process with the same name starts elsewhere
        self._sent: dict[int, float] = {}
        """When records were written that have not been read back yet, by number."""
        self._next_renewal = self._next_take = float("-inf")

    @property
    def epoch(self) -> int | None:
        """The epoch of its claim; None while it does not have the role."""
        return None if self._holder is None else self._holder.epoch

    @property
    def waiting_key(self) -> str:
        """The key under which it writes that it stands by."""
        return f"{self._role}/{self._instance}"

    def caught_up(self, at: float) -> None:
        """The end of the topic was reached for the first time: what is read from now on is new."""
        if self._behind:
            self._behind = False
            self._standby = Standby(self._instance, at)

    def read(self, key: str, offset: int, record: ClaimRecord, at: float) -> None:
        """Takes the next record of the topic."""
        sent = self._sent.pop(record.number, None) if record.instance == self._instance else None
        if sent is not None:
            self._standby.read_back(sent, at)
        if key != self._role:
            return
        counts = self.ledger.apply(offset, record)
        if counts and record.act != "release":
            self._standby.holder_renewed(at)
        if sent is None:
            return
        if not counts:
            self._next_take = at  # another process was faster: check again
        elif record.act == "take":
            self._holder = ClaimHolder(offset, sent)
        elif self._holder is not None:
            self._holder.confirmed(sent)

    def why_lost(self, at: float) -> str | None:
        """Why it must end at once; None where it has the role, or never had it."""
        return None if self._holder is None else self._holder.why_lost(self.ledger, at)

    def turn(self, at: float) -> Iterator[Write]:
        """The records to write now; none before the end of the topic was reached."""
        if self._behind:
            return
        if self._holder is None and at >= self._next_take and self._standby.may_take(self.ledger, at):
            self._next_take = at + TAKE_AGAIN_SECONDS
            yield self._write(self._role, ClaimRecord("take", self._instance, heard=self.ledger.last), at)
        if at >= self._next_renewal:
            self._next_renewal = at + RENEW_SECONDS
            if self._holder is None:
                yield self._write(self.waiting_key, ClaimRecord("wait", self._instance), at)
            else:
                yield self._write(self._role, ClaimRecord("renew", self._instance, epoch=self._holder.epoch), at)

    def goodbye(self, at: float) -> Iterator[Write]:
        """The records to write at the end, when all work of the role has stopped."""
        if self._holder is not None:
            yield self._write(self._role, ClaimRecord("release", self._instance, epoch=self._holder.epoch), at)

    def _write(self, key: str, record: ClaimRecord, at: float) -> Write:
        self._number += 1
        self._sent = {number: sent for number, sent in self._sent.items() if at - sent < 2 * TAKE_SECONDS}
        self._sent[self._number] = at
        return Write(key, msgspec.structs.replace(record, number=self._number))


POLL_SECONDS = 0.25
RELEASE_SECONDS = 3.0

READING = {"enable.partition.eof": True, "fetch.wait.max.ms": 500}
WRITING = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 10_000}


class LogClaim:
    """The claim of one process to a role. Calls `taken` with the epoch and `lost` with the reason, from its thread."""

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
        """Releases the role, so that another process has it at once; call when all work of the role has stopped."""
        self._ending.set()
        self._thread.join(RELEASE_SECONDS + 1)

    def _run(self) -> None:
        consumer = clients.consumer(self._settings, "claims", READING, ending_process())
        producer = clients.producer(self._settings, "claims", WRITING, ending_process())
        try:
            fetch_metadata(consumer, self._topic)
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            self._stand_by(consumer, producer)
            self._write_goodbye(producer)
        finally:
            consumer.close()

    def _stand_by(self, consumer: Consumer, producer: Producer) -> None:
        is_reported = False
        while not self._ending.is_set():
            self._read(consumer)
            why = self._claimant.why_lost(now())
            if why is not None:
                log.error("lost the role", role=self._role, epoch=self._claimant.epoch, why=why)
                self._lost(why)
                return
            if not is_reported and self._claimant.epoch is not None:
                is_reported = True
                log.info("has the role", role=self._role, epoch=self._claimant.epoch)
                self._taken(self._claimant.epoch)
            self._write(producer, self._claimant.turn(now()))
            producer.poll(0)

    def _read(self, consumer: Consumer) -> None:
        message = consumer.poll(POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is None:
                self._take(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._claimant.caught_up(now())
            message = consumer.poll(0)

    def _take(self, message: Message) -> None:
        try:
            key, value = text_key(message), message.value()
            if value is not None:
                self._claimant.read(key, message.offset() or 0, claims.decode(value), now())
        except Unreadable as problem:
            report_unreadable(message, problem)

    def _write(self, producer: Producer, writes: Iterable[Write]) -> None:
        for write in writes:
            # What is not written is not read back, which is what counts.
            with contextlib.suppress(BufferError, KafkaException):
                producer.produce(self._topic, key=write.key, value=claims.encode(write.record), partition=0)

    def _write_goodbye(self, producer: Producer) -> None:
        if self._claimant.why_lost(now()) is None:
            self._write(producer, self._claimant.goodbye(now()))
        with contextlib.suppress(BufferError, KafkaException):
            producer.produce(self._topic, key=self._claimant.waiting_key, value=None, partition=0)
        producer.flush(RELEASE_SECONDS)


TRY_SECONDS = 10.0


class NoEpoch(RuntimeError):
    """Kafka did not take the record whose offset would have been the epoch."""


def take_epoch(settings: Settings, role: str, instance: str) -> int:
    """The epoch of a process that already has the role, by a Lease or by the lock of its data folder. Blocks.

    It is greater than any before.
    """
    producer = clients.producer(settings, "claims", {"linger.ms": 0}, watchdog=None)
    outcome: list[Any] = []

    def written(error: KafkaError | None, message: Message) -> None:
        outcome.append(error if error is not None else message.offset())

    record = ClaimRecord("take", instance, sole=True)
    producer.produce(
        clients.topic_name(settings, topics.CLAIMS),
        key=role,
        value=claims.encode(record),
        partition=0,
        on_delivery=written,
    )
    producer.flush(TRY_SECONDS)
    if not outcome or not isinstance(outcome[0], int):
        raise NoEpoch(f"Kafka took no claim to {role}: {describe(outcome[0]) if outcome else 'no response'}")
    log.info("has the role", role=role, epoch=outcome[0])
    return outcome[0]
