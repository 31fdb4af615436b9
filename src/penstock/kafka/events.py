"""Writing to `penstock.events`: a record counts as stored when all in-sync replicas have confirmed it.

librdkafka batches and sends on its own threads. Confirmations are fetched on the event loop, many at a time,
by a timer that is quick while something is pending: no thread competes with the loop, and one wake-up serves many
requests. Callers pass a function to be called, not a future: no object is created per record.

This is the one way into the topic, for the ingress and for replies, so that equal keys share a partition.

Every batch costs Kafka, the router and the dispatcher a request each, whatever its size. So a single event
is written at once, and events that arrive while others are in flight are gathered for a few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.contract import topics
from penstock.contract.records import EventRecord
from penstock.kafka import clients
from penstock.kafka.clients import describe_error
from penstock.kafka.watchdog import ending_process
from penstock.observability.instruments import NOTHING, Bound
from penstock.observability.logs import describe
from penstock.runtime.tasks import Failed
from penstock.settings import Settings

POLL_SECONDS = 0.001
IDLE_POLL_SECONDS = 1.0
LINGER_MS = 0.5
"""How long librdkafka waits for further records of the same write."""
FEW = 4
"""Pending events up to which a further one is written at once."""
MANY = 16
"""Events of one request from which it is written at once: it is a batch already."""
GATHERING_POLLS = 4
"""Polls after which gathered events are written, unless everything in flight is confirmed before."""
BUFFER_KIB = 256 * 1024
"""Bytes of unconfirmed events, in KiB: bounds memory where events are large."""

log = structlog.get_logger()

Done = Callable[[Exception | None], None]
"""Called with None, or with the error."""


class NoRoom(Exception):
    """Too much is waiting for confirmation already."""


class NotStored(Exception):
    """Kafka did not confirm in time. The record may or may not have been written."""


class RecordTooLarge(Exception):
    """Kafka takes no record of this size."""


class EventWriter:
    """The producer side of `penstock.events`."""

    def __init__(
        self, settings: Settings, role: str, failed: Failed, *, timeout_seconds: float, gauge: Bound = NOTHING
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings, self._role, self._failed, self._gauge = settings, role, failed, gauge
        self._topic = clients.topic_name(settings, topics.EVENTS)
        self._limit = settings.max_pending_events
        self._options: dict[str, Any] = {
            "enable.idempotence": True,
            # With more, librdkafka's thread spins on an idempotent producer whose requests are all in flight; with one,
            # what arrives meanwhile becomes the next batch.
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": LINGER_MS,
            "message.timeout.ms": int(timeout_seconds * 1000),
            "queue.buffering.max.messages": settings.max_pending_events + 1,
            "queue.buffering.max.kbytes": BUFFER_KIB,
            "error_cb": self._on_error,
            "logger": logging.getLogger("librdkafka"),
        }
        self._producer = self._new_producer()
        self._pending = 0
        self._broken = False
        self._replaced: list[Producer] = []
        self._settled: list[_Confirmation] = []
        self._gathered: list[tuple[Sequence[EventRecord], _Confirmation]] = []
        self._gathered_events = self._polls = 0
        self.stored_at = self.failed_at = -math.inf
        """When Kafka last confirmed events, and when events were last not stored, by the loop's clock."""
        self._poll_again()

    @property
    def pending(self) -> int:
        """Events not yet confirmed."""
        return self._pending

    def has_capacity(self, events: int = 1) -> bool:
        """Whether so many more may be stored now."""
        return self._pending + events <= self._limit

    def store(self, records: Sequence[EventRecord], done: Done) -> None:
        """Writes the records and calls `done` when every one is confirmed: with None, NotStored or RecordTooLarge.

        Raises NoRoom or RecordTooLarge before anything is written. Records go to the partitions of their keys, so
        several are not written as one: on NotStored some of them may have been.
        """
        if len(records) > self._limit:
            raise RecordTooLarge(f"more than {self._limit} events at once")
        if not self.has_capacity(len(records)):
            raise NoRoom
        confirmation = _Confirmation(len(records), done, self._settled)
        if len(records) >= MANY and self._gathered:
            self._write_gathered()
        if len(records) >= MANY or (self._pending < FEW and not self._gathered):
            self._write(records, confirmation)
        else:
            self._gathered.append((records, confirmation))
            self._gathered_events += len(records)
        self._pending += confirmation.written
        if not self._is_polling_fast:
            self._timer.cancel()
            self._poll_again()

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._gathered_events = self._polls = 0
        for records, confirmation in gathered:
            asked = confirmation.written
            try:
                self._write(records, confirmation)
            except (NoRoom, NotStored, RecordTooLarge) as error:
                refused = NotStored("the buffer is full") if isinstance(error, NoRoom) else error
                confirmation.abandon(asked, refused)
                self._settled.append(confirmation)
            self._pending -= asked - confirmation.written

    def _write(self, records: Sequence[EventRecord], confirmation: _Confirmation) -> None:
        """Hands the records to librdkafka. Raises NoRoom, NotStored or RecordTooLarge where none is taken."""
        if self._broken:
            self._replace_producer()
        produce: Callable[..., None] = self._producer.produce  # typed for headers that may be None, which a list is not
        topic, confirm, written = self._topic, confirmation.confirm, 0
        try:
            for record in records:
                produce(topic, record.value, record.key, on_delivery=confirm, headers=record.headers)
                written += 1
        except (BufferError, KafkaException) as error:
            if not written:
                raise _refusal(error) from error
            # Other records of the request are already in flight, so it is not just NoRoom.
            confirmation.abandon(len(records) - written, NotStored(str(error)))

    async def is_available(self, seconds: float) -> bool:
        """Whether Kafka responds within so many seconds and every partition of the events has a leader."""
        try:
            known = await asyncio.to_thread(self._producer.list_topics, self._topic, seconds)
        except KafkaException:
            return False
        partitions = known.topics[self._topic].partitions.values()
        return bool(partitions) and all(partition.leader >= 0 for partition in partitions)

    async def close(self, seconds: float) -> int:
        """Waits for what is pending; returns how many events stayed unconfirmed."""
        deadline = self._loop.time() + seconds
        while self._pending and self._loop.time() < deadline:  # noqa: ASYNC110  # the poll timer is what ends it
            await asyncio.sleep(POLL_SECONDS * 5)
        self._timer.cancel()
        return self._pending

    def _new_producer(self) -> Producer:
        return clients.producer(self._settings, self._role, self._options, ending_process())

    def _poll(self) -> None:
        try:
            self._producer.poll(0)
            for producer in self._replaced:
                producer.poll(0)
            self._replaced = [producer for producer in self._replaced if len(producer)]
            self._settle()
            self._polls += bool(self._gathered)
            if self._polls >= GATHERING_POLLS or (self._gathered and self._pending == self._gathered_events):
                self._write_gathered()
        except Exception as error:  # in a timer of the loop it would only be logged: the component fails with it
            log.exception("confirmations cannot be fetched")
            self._failed(error)
            return
        self._gauge.set(self._pending)
        self._poll_again()

    def _settle(self) -> None:
        settled, self._settled[:] = self._settled[:], ()
        for confirmation in settled:
            self._pending -= confirmation.written
            if confirmation.error is None:
                self.stored_at = self._loop.time()
            elif isinstance(confirmation.error, NotStored):
                self.failed_at = self._loop.time()
            try:
                confirmation.done(confirmation.error)
            except Exception:  # of one request; others still have to get their confirmations
                log.exception("the confirmation of a request failed")

    def _poll_again(self) -> None:
        # Without anything pending, errors of the connection are still to be fetched.
        self._is_polling_fast = self._pending > 0
        self._timer = self._loop.call_later(POLL_SECONDS if self._pending else IDLE_POLL_SECONDS, self._poll)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            log.error("the producer had a fatal error and is replaced", error=describe(error))
            self._broken = True
        else:
            log.warning("Kafka is unreachable", error=describe_error(error))

    def _replace_producer(self) -> None:
        """A fatal error is final for a producer: what it holds fails, and a new one takes over."""
        self._producer.purge()
        self._replaced.append(self._producer)
        self._producer, self._broken = self._new_producer(), False


class _Confirmation:
    """One request's records, confirmed one by one. After the last one it is settled, after the poll, not within it."""

    __slots__ = ("_left", "_settled", "done", "error", "written")

    def __init__(self, records: int, done: Done, settled: list[_Confirmation]) -> None:
        self._left = self.written = records
        self._settled = settled
        self.done = done
        self.error: Exception | None = None
        if not records:
            settled.append(self)

    def confirm(self, error: KafkaError | None, _: Message) -> None:
        """Kafka has confirmed one record, or refused it."""
        if error is not None:
            self.error = _failure(error)
        self._left -= 1
        if not self._left:
            self._settled.append(self)

    def abandon(self, records: int, error: Exception) -> None:
        """So many records were not sent. Those before them are not confirmed before the next poll."""
        self.error = error
        self._left -= records
        self.written -= records


def _failure(error: KafkaError) -> Exception:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordTooLarge(str(error))
    return NotStored(str(error))


def _refusal(error: BufferError | KafkaException) -> Exception:
    """The exception for a record that librdkafka did not take."""
    return NoRoom() if isinstance(error, BufferError) else _failure(error.args[0])
