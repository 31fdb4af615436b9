"""What a component's process tells the one who started it, and how it is told to stop.

A component is a coroutine `run(settings, lifecycle)`. It calls `lifecycle.ready()` once it serves, `lifecycle.status()`
whenever it has something worth showing, `lifecycle.news()` for what a person should read, and returns soon after
`lifecycle.stopping` is set. Messages are JSON lines on a pipe; without one (a component run by hand or in a test) they
are kept in `said`.
"""

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
"""Pause between looks at a file that is not there yet."""

SAID_KEPT = 1000
"""Messages of a component that nobody listens to; it may run for months."""
NEWS_LENGTH = 500
"""Characters of a line of news, so that it fits into one write to the pipe."""

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
        self.waits_for: str | None = "it starts"
        """What keeps it from serving so far; None once it serves or stands by."""
        self.stands_by = False
        """Whether another process does the work, and this one waits to take it over."""
        self.doubts: list[Callable[[], str | None]] = []
        """Asked, from a thread, whether a component that serves can do so right now: why not, or None."""
        self._stood_by = False
        self._fd = notify_fd

    async def appears(self, path: Path) -> bool:
        """Waits for another component to write the file; False if told to stop before."""
        while not await asyncio.to_thread(path.exists):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), APPEARS_SECONDS)
            if self.stopping.is_set():
                return False
        return True

    async def before_stop(self, event: asyncio.Event) -> bool:
        """Waits for the event; False if told to stop before."""
        await first(event.wait(), self.stopping.wait())
        return not self.stopping.is_set()

    def ready(self, **details: Any) -> None:
        """The component serves; `details` (address, version, …) are shown by `penstock status`."""
        self.waits_for, self.stands_by = None, False
        stood_by = {"standing_by": False} if self._stood_by else {}
        self._say({"event": "ready", **stood_by, **details})

    def stand_by(self, **details: Any) -> None:
        """The component waits for another process to end, and is as ready as it can be before that."""
        self.waits_for, self.stands_by, self._stood_by = None, True, True
        self._say({"event": "ready", "standing_by": True, **details})

    def take_over(self) -> None:
        """The wait is over: the component begins the work, and is ready again when it serves."""
        if self.stands_by:
            self.waits_for, self.stands_by = "it takes over", False

    def unready(self) -> str | None:
        """Why nothing should be sent to this process now; None where it serves, or stands by for one that does."""
        if self.stopping.is_set():
            return "it stops"
        if self.waits_for is not None:
            return self.waits_for
        return next((why for doubt in self.doubts if (why := doubt()) is not None), None)

    def status(self, **details: Any) -> None:
        """Something that changes while the component runs, such as its lag."""
        self._say({"event": "status", **details})

    def news(self, text: str) -> None:
        """Something that happened to the user's own objects; shown on the terminal."""
        self._say({"event": "news", "text": text[:NEWS_LENGTH]})

    def fail(self, reason: str) -> None:
        """Why the component is about to end; shown on the terminal."""
        self._say({"event": "fail", "reason": reason})

    def _say(self, message: dict[str, Any]) -> None:
        if self._fd is None:
            self.said.append(message)
            del self.said[:-SAID_KEPT]
            return
        # One write below PIPE_BUF is atomic, so threads need no lock. A supervisor that is gone is noticed elsewhere.
        try:
            os.write(self._fd, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            self._fd = None


# The end of this process without another word, together with everything that it started.

EXIT_CODE = 70


def kill_process_tree() -> NoReturn:
    """For one that must not do anything more, not even in order: what it started would go on with the work."""
    for started in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            started.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)
