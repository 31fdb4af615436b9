"""Components of one process: ready when all are ready, failed when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from penstock.runtime.lifecycle import Lifecycle

if TYPE_CHECKING:
    from penstock.settings import Settings


Run = Callable[["Settings", Lifecycle], Awaitable[None]]


async def together(runs: dict[str, Run], settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs all of them until told to stop, or until one ends."""
    parts = {name: Part(lifecycle) for name in runs}

    def heard() -> None:
        if all(part.is_ready for part in parts.values()):
            lifecycle.ready(**{key: value for part in parts.values() for key, value in part.details.items()})

    for part in parts.values():
        part.heard = heard

    async def one(name: str) -> None:
        await runs[name](settings, parts[name])
        if not lifecycle.stopping.is_set():
            raise RuntimeError(f"{name} ended without being told to")

    async with asyncio.TaskGroup() as group:
        for name in runs:
            group.create_task(one(name), name=name)


class Part(Lifecycle):
    """The lifecycle of one of several components in a process."""

    def __init__(self, whole: Lifecycle) -> None:
        super().__init__()
        self.stopping, self.doubts = whole.stopping, whole.doubts
        self.is_ready = False
        self.details: dict[str, Any] = {}
        self.heard: Callable[[], None] = lambda: None
        self._whole = whole

    def ready(self, **details: Any) -> None:
        """This part serves."""
        self.is_ready, self.details = True, details
        self.heard()

    def status(self, **details: Any) -> None:
        """Passed on as the whole's."""
        self._whole.status(**details)

    def news(self, text: str) -> None:
        """Passed on as the whole's."""
        self._whole.news(text)

    def fail(self, reason: str) -> None:
        """Passed on as the whole's."""
        self._whole.fail(reason)
