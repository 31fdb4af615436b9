"""The producer: events at a steady rate, each sent again until it is answered with 202."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from tools.chaos.books import Sent
from tools.chaos.events import CHANNEL, SENDERS, type_of
from tools.chaos.receiver import data_of, headers_of
from tools.chaos.routes import NAMESPACE

ANSWER_SECONDS = 15
PAUSE_SECONDS = 0.25
"""Before an event is sent again. All senders together try many times a second, so that a return is seen at once."""

Accepted = Callable[[int, float], None]
"""Told of every event that was accepted: its number, the moment."""


class Load:
    """All senders. Where the stack does not accept, they wait, and do not make up for it later."""

    def __init__(self, sent: Sent, rate: float, base: Callable[[], str], accepted: Accepted) -> None:
        self._sent, self._base, self._accepted = sent, base, accepted
        self._interval = SENDERS / rate
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._client: Client | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begins to send."""
        limit = timedelta(seconds=ANSWER_SECONDS)
        self._client = ClientBuilder().timeout(limit).tcp_nodelay(True).no_proxy().build()
        self._tasks = [tasks.create_task(self._send_all(sender)) for sender in range(SENDERS)]

    async def stop(self) -> None:
        """No new events; returns when every one that was begun is accepted."""
        self._ending.set()
        await asyncio.gather(*self._tasks)
        if self._client is not None:
            await self._client.close()

    async def _send_all(self, sender: int) -> None:
        number, due = sender, time.monotonic() + self._interval * sender / SENDERS
        while not self._ending.is_set():
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._send(number)
            number += SENDERS
            due = max(due + self._interval, time.monotonic())

    async def _send(self, number: int) -> None:
        path = f"/channels/{NAMESPACE}/chaos" if type_of(number) == CHANNEL else f"/{NAMESPACE}/chaos"
        while True:
            self._sent.begin(number, time.monotonic())
            outcome = await self._post(f"{self._base()}{path}", number)
            if outcome == "202":
                now = time.monotonic()
                self._sent.accept(number, now)
                self._accepted(number, now)
                return
            self._sent.refused[outcome] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _post(self, url: str, number: int) -> str:
        """The status of the answer, or the name of the error where there was none."""
        assert self._client is not None
        try:
            request = self._client.post(url).headers(headers_of(number)).body_bytes(data_of(number)).build()
            return str((await request.send()).status)
        except PyreqwestError as error:
            return type(error).__name__
