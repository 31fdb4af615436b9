"""How long after a fault the first event arrives that was accepted after it, and how long nothing arrived meanwhile."""

from __future__ import annotations

import asyncio
import time

from tools.chaos.books import NEVER, Sent

RECOVERY_SECONDS = 300.0
"""A stack that delivers nothing new for this long has not recovered."""


class Recovery:
    """Watches arrivals. An event may arrive before its 202 is read: it then counts when that is."""

    def __init__(self, sent: Sent, healthy: frozenset[str]) -> None:
        self._sent, self._healthy = sent, healthy
        self._since = NEVER
        self._arrived_early: set[int] = set()
        self.silence = 0.0
        """The longest time without a delivery since the fault began."""
        self._last_delivery = NEVER
        self.seen: float | None = None
        """When the first event arrived that counts."""
        self._recovered = asyncio.Event()

    def begin(self, now: float) -> None:
        """A fault begins."""
        self._since, self.seen, self.silence, self._last_delivery = NEVER, None, 0.0, now

    def watch(self, since: float) -> None:
        """From now on an event counts that was accepted after `since`."""
        self._since, self.seen = since, None
        self._arrived_early.clear()
        self._recovered.clear()

    def delivered(self, subscriber: str, number: int, now: float) -> None:
        """A subscriber took an event for the first time."""
        if self.seen is not None or subscriber not in self._healthy:
            return
        self.silence, self._last_delivery = max(self.silence, now - self._last_delivery), now
        if now < self._since:
            return
        if not self._sent.is_accepted(number):
            self._arrived_early.add(number)
        elif self._sent.accepted[number] > self._since:
            self._note(now)

    def accepted(self, number: int, now: float) -> None:
        """An event was answered with 202."""
        if self.seen is None and number in self._arrived_early and now > self._since:
            self._note(now)

    async def wait(self, limit: float) -> float | None:
        """The moment of the first arrival that counts; None if there is none within `limit` seconds."""
        try:
            await asyncio.wait_for(self._recovered.wait(), limit)
        except TimeoutError:
            return None
        return self.seen

    def _note(self, now: float) -> None:
        self.seen = now
        self._recovered.set()


def clock() -> float:
    """The clock of all moments."""
    return time.monotonic()
