"""One process that claims a role: what it makes of the records it reads, and what it writes. Time is handed in."""

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
from penstock.kafka.tail import get_to_know
from penstock.kafka.unreadable import report_unreadable
from penstock.kafka.watchdog import ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed, OwnedThread
from penstock.runtime.times import now
from penstock.settings import Settings

# When a role may be taken from one that is silent, and when one that is not heard must stop. Pure: time is handed in.
# holder renews ----- renews --x (frozen, cut off) stops acting |------------- 12 s ------------------| standby hears
# it |----------------- 13.5 s --------------| takes the role Both measure on their own clock, from the same record:
# the holder from the moment before it wrote it, the standby from the moment after it read it. So the holder stops
# first, however far apart the clocks are; only their pace must be the same within a tenth. The clock is the one that
# also runs while a machine sleeps. A Kafka that is away for all is no silence of the holder. One that stands by
# writes too, and takes the role only if what it writes has come back at once for some seconds, in which everybody
# else had the time to be heard. The same keeps one that was frozen itself from believing that all others were. 12 s
# are a little more than Kafka needs to replace a broker that died (9 s until it is given up, then another leads the
# partition), so that the end of a broker ends no pipeline unless everything is slow at that moment. 13.5 s leave 1.5
# s to take the role within 15. What a frozen process does in the milliseconds between its waking and its end is not a
# matter of time, but of epochs: routes and cursors are written in transactions that Kafka refuses to the one before,
# and what is routed bears the epoch of its writer.

RENEW_SECONDS = 1.0
GIVE_UP_SECONDS = 12.0
TAKE_SECONDS = 13.5
LIVE_SECONDS = 3.0
"""For so long what is written must have come back at once before silence means anything."""
PROMPT_SECONDS = 2.0


class Standby:
    """One that waits for a role."""

    def __init__(self, instance: str, at: float) -> None:
        self._instance = instance
        self._heard = at
        self._live_since: float | None = None
        self._last_back = at

    def holder_spoke(self, at: float) -> None:
        """A record of the holder was read, not one that lay there."""
        self._heard = at

    def came_back(self, sent: float, at: float) -> None:
        """A record of this one's own was read."""
        if at - sent > PROMPT_SECONDS or at - self._last_back > PROMPT_SECONDS + RENEW_SECONDS:
            self._live_since = None
        if at - sent <= PROMPT_SECONDS:
            self._live_since = at if self._live_since is None else self._live_since
        self._last_back = at

    def may_take(self, ledger: RoleClaims, at: float) -> bool:
        """Whether nobody has the role, or the one that has it must have stopped."""
        if ledger.holder is None or ledger.holder == self._instance:
            return True
        live = self._live_since is not None and at - self._last_back <= PROMPT_SECONDS + RENEW_SECONDS
        steady = live and at - (self._live_since or at) >= LIVE_SECONDS
        return steady and at - self._heard >= TAKE_SECONDS


class ClaimHolder:
    """One that has a role."""

    def __init__(self, epoch: int, sent: float) -> None:
        self.epoch = epoch
        self._confirmed = sent

    def confirmed(self, sent: float) -> None:
        """A renewal that was sent then counts."""
        self._confirmed = max(self._confirmed, sent)

    def why_lost(self, ledger: RoleClaims, at: float) -> str | None:
        """Why it must stop at once; None where it has the role."""
        if ledger.epoch != self.epoch:
            return f"{ledger.holder} has taken it"
        silent = at - self._confirmed
        if silent >= GIVE_UP_SECONDS:
            return f"it could not be renewed for {silent:.1f} s, and another may take it"
        return None


TAKE_AGAIN_SECONDS = 3.0
"""A take that has not come back by then is written again."""


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
        self._number = secrets.randbits(40)  # no other process of the same name counts from there
        self._sent: dict[int, float] = {}
        """When what has not come back yet was written."""
        self._next_word = self._next_take = float("-inf")

    @property
    def epoch(self) -> int | None:
        """The epoch of its claim; None while it does not have the role."""
        return None if self._holder is None else self._holder.epoch

    @property
    def waiting_key(self) -> str:
        """The key under which it says that it stands by."""
        return f"{self._role}/{self._instance}"

    def caught_up(self, at: float) -> None:
        """The end of the topic was reached for the first time: what is read from now on was written just now."""
        if self._behind:
            self._behind = False
            self._standby = Standby(self._instance, at)

    def read(self, key: str, offset: int, record: ClaimRecord, at: float) -> None:
        """Takes in the next record of the topic."""
        sent = self._sent.pop(record.number, None) if record.instance == self._instance else None
        if sent is not None:
            self._standby.came_back(sent, at)
        if key != self._role:
            return
        counts = self.ledger.apply(offset, record)
        if counts and record.act != "release":
            self._standby.holder_spoke(at)
        if sent is None:
            return
        if not counts:
            self._next_take = at  # another came first: look again
        elif record.act == "take":
            self._holder = ClaimHolder(offset, sent)
        elif self._holder is not None:
            self._holder.confirmed(sent)

    def why_lost(self, at: float) -> str | None:
        """Why it must end at once; None where it has the role, or never had it."""
        return None if self._holder is None else self._holder.why_lost(self.ledger, at)

    def turn(self, at: float) -> Iterator[Write]:
        """What to write now. Nothing before everything was read that lay there."""
        if self._behind:
            return
        if self._holder is None and at >= self._next_take and self._standby.may_take(self.ledger, at):
            self._next_take = at + TAKE_AGAIN_SECONDS
            yield self._write(self._role, ClaimRecord("take", self._instance, heard=self.ledger.last), at)
        if at >= self._next_word:
            self._next_word = at + RENEW_SECONDS
            if self._holder is None:
                yield self._write(self.waiting_key, ClaimRecord("wait", self._instance), at)
            else:
                yield self._write(self._role, ClaimRecord("renew", self._instance, epoch=self._holder.epoch), at)

    def goodbye(self, at: float) -> Iterator[Write]:
        """What to write at the end, when nothing of the role's work goes on any more."""
        if self._holder is not None:
            yield self._write(self._role, ClaimRecord("release", self._instance, epoch=self._holder.epoch), at)

    def _write(self, key: str, record: ClaimRecord, at: float) -> Write:
        self._number += 1
        self._sent = {number: sent for number, sent in self._sent.items() if at - sent < 2 * TAKE_SECONDS}
        self._sent[self._number] = at
        return Write(key, msgspec.structs.replace(record, number=self._number))


# A claim that is decided by the records of `penstock.claims`: one thread reads, writes, and keeps the time. It stands
# by until the role is free, takes it, renews it, and tells when it is lost. Whoever is told so must end at once,
# without another word: another one may begin.

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


# An epoch for one that has a role already, because a Lease or the lock of a data folder says so.


TRY_SECONDS = 10.0


class NoEpoch(RuntimeError):
    """Kafka did not take the record that would have given the epoch."""


def take_epoch(settings: Settings, role: str, instance: str) -> int:
    """Writes down that this process has the role now; the epoch, which is greater than any before. Blocks."""
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
        raise NoEpoch(f"Kafka took no claim to {role}: {describe(outcome[0]) if outcome else 'no answer'}")
    log.info("has the role", role=role, epoch=outcome[0])
    return outcome[0]
