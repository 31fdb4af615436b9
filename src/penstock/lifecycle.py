"""What a component's process tells the one who started it, and how it is told to stop.

A component is a coroutine `run(settings, lifecycle)`. It calls `lifecycle.ready()` once it serves, `lifecycle.status()`
whenever it has something worth showing, and returns soon after `lifecycle.stopping` is set. Messages are JSON lines
on a pipe; without one (a component run by hand or in a test) they are kept in `said`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

APPEARS_SECONDS = 0.1
"""Pause between looks at a file that is not there yet."""

GARBAGE_THRESHOLDS = (20_000, 20, 50)
"""Requests and deliveries are many small objects that end by themselves; looking for cycles among them less often saves
a tenth."""


def settle_garbage() -> None:
    """Looks for cycles seldom, and never again among what was there before the first event."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.collect()
    gc.freeze()


async def first(*works: Coroutine[Any, Any, object]) -> None:
    """Waits for the first to end and raises what it raised; the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Lifecycle:
    """The line between a component and its supervisor."""

    def __init__(self, notify_fd: int | None = None) -> None:
        self.stopping = asyncio.Event()
        self.said: list[dict[str, Any]] = []
        self._fd = notify_fd

    async def appears(self, path: Path) -> bool:
        """Waits for another component to write the file; False if told to stop before."""
        while not await asyncio.to_thread(path.exists):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), APPEARS_SECONDS)
            if self.stopping.is_set():
                return False
        return True

    def ready(self, **details: Any) -> None:
        """The component serves; `details` (address, version, …) are shown by `penstock status`."""
        self._say({"event": "ready", **details})

    def status(self, **details: Any) -> None:
        """Something that changes while the component runs, such as its lag."""
        self._say({"event": "status", **details})

    def fail(self, reason: str) -> None:
        """Why the component is about to end; shown on the terminal."""
        self._say({"event": "fail", "reason": reason})

    def _say(self, message: dict[str, Any]) -> None:
        if self._fd is None:
            self.said.append(message)
            return
        # One write below PIPE_BUF is atomic, so threads need no lock. A supervisor that is gone is noticed elsewhere.
        try:
            os.write(self._fd, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            self._fd = None
