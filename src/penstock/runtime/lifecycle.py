"""The lifecycle of a component's process: how it reports its state, is asked to stop, and is killed.

A component is a coroutine `run(settings, lifecycle)`. It calls `lifecycle.ready()` when it is ready,
`lifecycle.status()` when details have changed, `lifecycle.news()` for notices to the user, and returns soon after
`lifecycle.stopping` is set. Messages are JSON lines on a pipe to the supervisor; without one (a standalone role, or a
test) they are kept in `said`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

import psutil

APPEARS_SECONDS = 0.1
"""Interval of checks for a file."""

SAID_KEPT = 1000
"""How many messages are kept without a supervisor; a process may run for months."""
NEWS_LENGTH = 500
"""Longest text of a notice, so that a message fits into one atomic write to the pipe."""

GARBAGE_THRESHOLDS = (20_000, 20, 50)
"""Requests and deliveries are many small objects without cycles; fewer collections save a tenth of the CPU time."""


def settle_garbage() -> None:
    """Makes collections rare, and excludes the objects that exist before the first event."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.collect()
    gc.freeze()


async def first(*works: Coroutine[Any, Any, object]) -> None:
    """Waits for the first coroutine to end and raises its error; the others are cancelled."""
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
    """The connection between a component and its supervisor."""

    def __init__(self, notify_fd: int | None = None) -> None:
        self.stopping = asyncio.Event()
        self.said: list[dict[str, Any]] = []
        self.waits_for: str | None = "it starts"
        """Why it is not ready yet; None when it is ready or a standby."""
        self.stands_by = False
        """Whether it is a standby: another process has the role."""
        self.doubts: list[Callable[[], str | None]] = []
        """Checks for readiness, called from a thread: each returns a problem or None."""
        self._stood_by = False
        self._fd = notify_fd

    async def appears(self, path: Path) -> bool:
        """Waits until the file exists; False if stopped before."""
        while not await asyncio.to_thread(path.exists):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), APPEARS_SECONDS)
            if self.stopping.is_set():
                return False
        return True

    async def before_stop(self, event: asyncio.Event) -> bool:
        """Waits for the event; False if stopped before."""
        await first(event.wait(), self.stopping.wait())
        return not self.stopping.is_set()

    def ready(self, **details: Any) -> None:
        """The component is ready; `details` (address, version, …) are shown by `penstock status`."""
        self.waits_for, self.stands_by = None, False
        stood_by = {"standing_by": False} if self._stood_by else {}
        self._say({"event": "ready", **stood_by, **details})

    def stand_by(self, **details: Any) -> None:
        """The component is a standby: it waits for the process that has the role to end."""
        self.waits_for, self.stands_by, self._stood_by = None, True, True
        self._say({"event": "ready", "standing_by": True, **details})

    def take_over(self) -> None:
        """The standby got the role; it calls `ready` when it has started."""
        if self.stands_by:
            self.waits_for, self.stands_by = "it takes over", False

    def unready(self) -> str | None:
        """Why the process is not ready, or None. A standby is ready."""
        if self.stopping.is_set():
            return "it stops"
        if self.waits_for is not None:
            return self.waits_for
        return next((why for doubt in self.doubts if (why := doubt()) is not None), None)

    def status(self, **details: Any) -> None:
        """Reports details that change while the component runs, such as its lag."""
        self._say({"event": "status", **details})

    def news(self, text: str) -> None:
        """Reports a notice about the user's own objects; shown on the terminal."""
        self._say({"event": "news", "text": text[:NEWS_LENGTH]})

    def fail(self, reason: str) -> None:
        """Reports why the component is about to end; shown on the terminal."""
        self._say({"event": "fail", "reason": reason})

    def _say(self, message: dict[str, Any]) -> None:
        if self._fd is None:
            self.said.append(message)
            del self.said[:-SAID_KEPT]
            return
        # One write below PIPE_BUF is atomic, so threads need no lock. The end of the supervisor is detected elsewhere.
        try:
            os.write(self._fd, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            self._fd = None


EXIT_CODE = 70


def kill_process_tree() -> NoReturn:
    """Kills this process and its children without cleanup, so that none of them can continue the work."""
    for started in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            started.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
