"""A Trigger's reply on its way back into the Broker: straight into `penstock.events`, as the ingress would store it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from penstock.contract.records import record_of, travelling
from penstock.events.attributes import TTL, enter_broker
from penstock.events.event import CloudEvent
from penstock.kafka.events import EventWriter, NoRoom, NotStored, RecordTooLarge
from penstock.runtime.tasks import Failed
from penstock.settings import Settings

STORE_SECONDS = 30.0
CLOSE_SECONDS = 1.0

Stored = Callable[[str, CloudEvent], None]
"""Called with the target and the reply that was stored in it."""


class ReplyNotStored(RuntimeError):
    """The reply is not stored in the Broker, or may not be."""


class ReplyWriter:
    """Stores replies; each is durable when `store` returns."""

    def __init__(self, settings: Settings, failed: Failed, stored: Stored = lambda target, reply: None) -> None:
        self._stored = stored
        self._highest_ttl, self._max_event_bytes = settings.broker_ttl, settings.max_event_bytes
        self._loop = asyncio.get_running_loop()
        self._writer = EventWriter(settings, "replies", failed, timeout_seconds=STORE_SECONDS)

    async def store(
        self,
        target: str,
        reply: CloudEvent,
        original_ttl: str | None,
        passed: list[tuple[str, str]],
        *,
        span: str,
        tracestate: str | None,
    ) -> None:
        """Stores the reply in the Broker `target`, in the trace of the event that it replies to.

        Raises ReplyNotStored, or TooManyHops when its TTL is used up.
        """
        if len(reply.data or b"") > self._max_event_bytes:
            raise ReplyNotStored(f"the reply is larger than an event may be ({self._max_event_bytes} bytes)")
        event = enter_broker(reply.with_attributes(**{TTL: original_ttl}), self._highest_ttl, time.time_ns())
        along = travelling(target.encode(), dict(passed), span, tracestate)
        done: asyncio.Future[None] = self._loop.create_future()
        try:
            self._writer.store([record_of(event, along)], partial(_settle, done))
        except (NoRoom, NotStored, RecordTooLarge) as error:
            raise _not_stored(error) from error
        await done
        self._stored(target, event)

    async def close(self) -> None:
        """Waits briefly for replies that are being stored."""
        await self._writer.close(CLOSE_SECONDS)


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(_not_stored(error))


def _not_stored(error: Exception) -> ReplyNotStored:
    reason = "too many events are waiting to be stored" if isinstance(error, NoRoom) else str(error)
    return ReplyNotStored(f"the reply could not be stored in the Broker: {reason}")
