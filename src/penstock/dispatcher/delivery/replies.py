"""A Trigger's reply on its way back into the Broker: straight into `penstock.events`, as the ingress would store it."""

from __future__ import annotations

import asyncio
import threading
import time

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.contract import headers, topics
from penstock.events import kafka_binding as kafka
from penstock.events.broker_attributes import TTL, enter_broker
from penstock.events.event import CloudEvent
from penstock.log.watchdog import watched

STORE_SECONDS = 30


class NotStored(RuntimeError):
    """The reply is not, or not surely, in the Broker."""


class ReplyWriter:
    """Stores replies; each is durable when `store` returns."""

    def __init__(self, bootstrap: str, default_ttl: int, max_event_bytes: int) -> None:
        self._default_ttl, self._max_event_bytes = default_ttl, max_event_bytes
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            watched(
                {
                    "bootstrap.servers": bootstrap,
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 1,
                    "delivery.timeout.ms": STORE_SECONDS * 1000,
                    "message.max.bytes": 16 * 1024 * 1024,
                }
            )
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="replies", daemon=True)
        self._thread.start()

    async def store(
        self, target: str, reply: CloudEvent, original_ttl: str | None, passed: list[tuple[str, str]], trace: str
    ) -> None:
        """Stores the reply in the Broker `target`. Raises NotStored, or TooManyHops when its TTL is used up."""
        if len(reply.data or b"") > self._max_event_bytes:
            raise NotStored(f"the reply is larger than an event may be ({self._max_event_bytes} bytes)")
        event = enter_broker(reply.with_attributes(**{TTL: original_ttl}), self._default_ttl, time.time_ns())
        stored = kafka.to_headers(event)
        stored.append((headers.TARGET, target.encode()))
        stored.append((headers.TRACE, trace.encode()))
        stored.extend((headers.PASSED + name, value.encode("latin-1", "replace")) for name, value in passed)
        done: asyncio.Future[None] = self._loop.create_future()

        def delivered(error: KafkaError | None, _: Message) -> None:
            self._loop.call_soon_threadsafe(_settle, done, error)

        try:
            self._producer.produce(
                topics.EVENTS,
                key=kafka.partition_key(event),
                value=event.data,
                headers=stored,  # type: ignore[arg-type]  # a list of pairs is what it takes
                on_delivery=delivered,
            )
        except (BufferError, KafkaException) as error:
            raise NotStored(f"the reply could not be stored in the Broker: {error}") from error
        await done

    def close(self) -> None:
        """Blocks until the thread is gone."""
        self._stop.set()
        self._thread.join(timeout=5)
        self._producer.flush(1)

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(0.2)


def _settle(done: asyncio.Future[None], error: KafkaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(NotStored(f"the reply could not be stored in the Broker: {error.str()}"))
