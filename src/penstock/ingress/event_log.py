"""Writing to `penstock.events`: a record counts as stored when all in-sync replicas have confirmed it.

librdkafka batches and sends on its own threads. Confirmations are fetched on the event loop, a whole group at a time,
by a timer that is quick while something is pending: no thread competes with the loop, and one wake-up serves many
requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.contract import topics
from penstock.ingress.record import Record
from penstock.observability import metrics
from penstock.settings import Settings

POLL_SECONDS = 0.001
IDLE_POLL_SECONDS = 1.0
BUFFER_KIB = 256 * 1024
"""Bytes of unconfirmed events, in KiB: bounds memory where events are large."""

log = structlog.get_logger()


class NoRoom(Exception):
    """Too much is waiting for confirmation already."""


class NotStored(Exception):
    """Kafka did not confirm in time. The record may or may not have been written."""


class RecordTooLarge(Exception):
    """Kafka takes no record of this size."""


class EventLog:
    """The producer side of `penstock.events`."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = settings.max_pending_events
        self._config: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap,
            "client.id": "penstock-ingress",
            "acks": "all",
            "enable.idempotence": True,
            # With more, librdkafka's thread spins on an idempotent producer whose requests are all under way; with one,
            # what arrives meanwhile becomes the next batch.
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 2,
            "partitioner": "murmur2_random",
            "message.timeout.ms": int(settings.store_timeout_seconds * 1000),
            "message.max.bytes": settings.max_record_bytes,
            "queue.buffering.max.messages": settings.max_pending_events + 1,
            "queue.buffering.max.kbytes": BUFFER_KIB,
            "topic.metadata.refresh.interval.ms": 30_000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "socket.nagle.disable": True,
            "error_cb": self._on_error,
        }
        self._producer = self._new_producer()
        self._pending = 0
        self._broken = False
        self._replaced: list[Producer] = []
        self._gauge = metrics.PENDING.bind()
        self._poll_again()

    @property
    def pending(self) -> int:
        """Events not yet confirmed."""
        return self._pending

    def has_room(self, events: int = 1) -> bool:
        """Whether so many more may be stored now."""
        return self._pending + events <= self._limit

    async def store(self, records: Sequence[Record]) -> None:
        """Returns when every record is confirmed. Raises NoRoom before anything is written, NotStored, RecordTooLarge.

        Records go to the partitions of their keys, so several are not written as one: on NotStored some of them may
        have been.
        """
        if len(records) > self._limit:
            raise RecordTooLarge(f"more than {self._limit} events at once")
        if not self.has_room(len(records)):
            raise NoRoom
        if self._broken:
            self._replace_producer()
        confirmation = _Confirmation(self._loop.create_future(), len(records))
        for position, record in enumerate(records):
            try:
                self._produce(record, confirmation.confirm)
            except (BufferError, KafkaException) as error:
                confirmation.abandon(len(records) - position, _refusal(error, first=position == 0))
                break
        if not self._is_polling_fast:
            self._timer.cancel()
            self._poll_again()
        await confirmation.future

    async def close(self, seconds: float) -> int:
        """Waits for what is pending; returns how many events stayed unconfirmed."""
        deadline = self._loop.time() + seconds
        while self._pending and self._loop.time() < deadline:  # noqa: ASYNC110  # the poll timer is what ends it
            await asyncio.sleep(POLL_SECONDS * 5)
        self._timer.cancel()
        return self._pending

    def _new_producer(self) -> Producer:
        return Producer(self._config, logger=logging.getLogger("librdkafka"))

    def _produce(self, record: Record, confirm: Callable[[KafkaError | None], None]) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            self._pending -= 1
            confirm(error)

        self._producer.produce(
            topics.EVENTS, value=record.value, key=record.key, headers=cast(Any, record.headers), on_delivery=delivered
        )
        self._pending += 1

    def _poll(self) -> None:
        self._producer.poll(0)
        for producer in self._replaced:
            producer.poll(0)
        self._replaced = [producer for producer in self._replaced if len(producer)]
        self._gauge.set(self._pending)
        self._poll_again()

    def _poll_again(self) -> None:
        # Without anything pending there are still messages about the connection to fetch.
        self._is_polling_fast = self._pending > 0
        self._timer = self._loop.call_later(POLL_SECONDS if self._pending else IDLE_POLL_SECONDS, self._poll)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            log.error("the producer cannot go on and is replaced", error=str(error))
            self._broken = True
        else:
            log.warning("Kafka is away", error=str(error))

    def _replace_producer(self) -> None:
        """A fatal error is final for a producer: what it holds fails, and a new one takes over."""
        self._producer.purge()
        self._replaced.append(self._producer)
        self._producer, self._broken = self._new_producer(), False


class _Confirmation:
    """One request's records, confirmed one by one."""

    __slots__ = ("_error", "_left", "future")

    def __init__(self, future: asyncio.Future[None], records: int) -> None:
        self.future = future
        self._left = records
        self._error: Exception | None = None
        if not records:
            future.set_result(None)

    def confirm(self, error: KafkaError | None) -> None:
        """Kafka has answered for one record."""
        if error is not None:
            self._error = _failure(error)
        self._done(1)

    def abandon(self, records: int, error: Exception) -> None:
        """So many records were not even sent."""
        self._error = error
        self._done(records)

    def _done(self, records: int) -> None:
        self._left -= records
        if self._left == 0 and not self.future.done():
            if self._error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(self._error)


def _failure(error: KafkaError) -> Exception:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return RecordTooLarge(str(error))
    return NotStored(str(error))


def _refusal(error: BufferError | KafkaException, first: bool) -> Exception:
    """Why a record was not taken. Once another record of the request is on its way, 'no room' is no longer all."""
    if isinstance(error, BufferError):
        return NoRoom() if first else NotStored("the buffer is full")
    return _failure(error.args[0])
