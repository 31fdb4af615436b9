"""One fault, while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tools.chaos.recovery import clock


@dataclass
class Blow:
    """What was done, and how it is undone."""

    what: str
    victim: str
    struck: float
    take_over: float | None = None
    """Seconds until the one that stood by had the role; None where nobody has to take anything over."""
    planned: bool = False
    """Whether a pause belongs to it, so that no bound is set to it."""
    mended: Callable[[], Awaitable[None]] | None = None
    """Brings the victim back; called when events flow again."""

    async def lasts(self, seconds: float) -> None:
        """Returns so long after it was struck."""
        await asyncio.sleep(max(0.0, self.struck + seconds - clock()))


Strike = Callable[[], Awaitable[Blow]]
