"""Sends an event until its sink accepts it, and keeps the reason of a delay for the status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from penstock.events.event import CloudEvent
from penstock.resources.destinations.resolution import ResolvedAddress
from penstock.retry import pause_after
from penstock.sources.sinks import NotAccepted
from penstock.timestamps import rfc3339

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
TOLD_AFTER = 3
"""Failures in a row before they are reported: a restart of the sink is not."""

Send = Callable[[ResolvedAddress, CloudEvent, str], Awaitable[None]]
Letter = tuple[ResolvedAddress, CloudEvent, str]
"""Where to, what, and the namespace of the source."""


class SourceDeliveries:
    """The deliveries of one source, one after the other."""

    def __init__(self, send: Send, reported: Callable[[], None]) -> None:
        self.trouble: str | None = None
        """Why the source waits for its sink; None where it does not."""
        self._send, self._reported = send, reported
        self._changed = asyncio.Event()

    def hurry(self) -> None:
        """What is sent, or where to, has changed: a pause before the next try is cut short."""
        self._changed.set()

    async def deliver(self, letter: Callable[[], Letter | None], *, skip_refused: bool = False) -> bool:
        """Tries until accepted; False as soon as there is nothing to send any more. Each try asks for it anew.

        With `skip_refused` an event that the sink refuses for good is reported and left out.
        """
        failures, since = 0, rfc3339()
        while True:
            self._changed.clear()
            current = letter()
            if current is None:
                return False
            try:
                await self._send(*current)
            except NotAccepted as refusal:
                if skip_refused and refusal.for_good:
                    self._report(f"an event of {since} was refused: {refusal}")
                    return True
                failures += 1
                if failures >= TOLD_AFTER:
                    self._report(f"events wait since {since}: {refusal}")
                await self._pause(pause_after(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
            else:
                self._report(None)
                return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _report(self, trouble: str | None) -> None:
        if self.trouble != trouble:
            self.trouble = trouble
            self._reported()
