"""What runs in a container, whether a program that penstock brings or one of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Exit:
    """How a program ended."""

    code: int
    message: str = ""


class Run(Protocol):
    """One run of a container."""

    def stop(self, grace: float) -> None:
        """Asks it to end within `grace` seconds; 0 ends it at once."""

    async def run(self, ready: Callable[[], None]) -> Exit:
        """Runs to its end. `ready` is called once it serves, or once it is started where nobody can tell."""


class Stoppable:
    """The half of a run that is asked to end."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._grace = 0.0

    def stop(self, grace: float) -> None:
        """See `Run`."""
        self._grace = grace
        self._stop.set()
