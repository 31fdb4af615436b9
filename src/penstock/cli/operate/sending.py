"""Events to an ingress, as fast as asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from penstock.cli.operate.event_input import numbered
from penstock.events.event import CloudEvent
from penstock.operations.sending.credentials import SendingCredentials
from penstock.operations.sending.posting import Sent, client_for, post

AT_ONCE = 64
"""Requests under way at once, where many are to be sent."""
NOBODY = SendingCredentials()


@dataclass
class SendingOutcome:
    """What became of all."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """For people."""
        rate = self.accepted / self.seconds if self.seconds else 0.0
        rest = f", {self.refused} not" if self.refused else ""
        return f"{self.accepted} accepted{rest} in {self.seconds:.1f} s ({rate:.0f}/s)"


class EventSender:
    """Sends to one address."""

    def __init__(self, url: str, tell: Callable[[Sent], None], credentials: SendingCredentials = NOBODY) -> None:
        self._url, self._tell, self._credentials = url, tell, credentials
        self._outcome = SendingOutcome()

    async def send(self, event: CloudEvent, count: int = 1, rate: float | None = None) -> SendingOutcome:
        """Sends the event `count` times, each with an id of its own, at `rate` a second or as fast as it goes."""
        begun, slots = time.perf_counter(), asyncio.Semaphore(AT_ONCE)
        limits = httpx2.Limits(max_connections=AT_ONCE)
        async with client_for(self._credentials, limits) as client, asyncio.TaskGroup() as group:
            for number in range(count):
                if rate is not None:
                    await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                await slots.acquire()
                group.create_task(self._post(client, numbered(event, number), slots))
        self._outcome.seconds = time.perf_counter() - begun
        return self._outcome

    async def _post(self, client: httpx2.AsyncClient, event: CloudEvent, slots: asyncio.Semaphore) -> None:
        try:
            sent = await post(client, self._url, event, self._credentials)
        finally:
            slots.release()
        if sent.accepted:
            self._outcome.accepted += 1
        else:
            self._outcome.refused += 1
        self._tell(sent)
