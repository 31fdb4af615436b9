"""The history, kept open while it is used: in a thread of its own that gives way to deliveries.

To open it costs a connection to Kafka and a look at everything that the tables do not have. So it stays open for a
while, in which only what has come since is read; and it is closed when it is no longer used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.history.reader.history import History
from penstock.history.schema.columns import HistoryProblem
from penstock.runtime.errors import UserError

MOST_RECORDS = 200_000
"""Records of each topic, the newest, that are read if the tables do not have them yet."""
FRESH_SECONDS = 1.0
"""Answers are of this moment, or of one so long ago."""
LONGEST_SECONDS = 60.0
"""After so long it is opened anew: the tables have grown, and what was read of Kafka takes memory."""
IDLE_SECONDS = 20.0
PATIENCE_SECONDS = 30.0
"""Longest duration of a query."""

T = TypeVar("T")


class Archive:
    """Answers questions one after the other. Used from one event loop."""

    def __init__(self, open_history: Callable[[], History], clock: Callable[[], float] = time.monotonic) -> None:
        self._open, self._clock = open_history, clock
        self._thread = low_priority_thread("archive")
        self._history: History | None = None
        self._opened = self._moved = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._asking = 0

    async def ask(self, question: Callable[[History], T]) -> T:
        """The answer. Raises UserError where it cannot be had."""
        self._asking += 1
        self._stop_waiting()
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)
        try:
            return await asyncio.wait_for(asyncio.shield(work), PATIENCE_SECONDS)
        except TimeoutError:
            self._interrupt()
            with contextlib.suppress(UserError, asyncio.CancelledError):
                await work
            raise UserError(
                f"The query of the history took longer than {PATIENCE_SECONDS:.0f} s.", "Choose a shorter time range."
            ) from None
        finally:
            self._asking -= 1
            if not self._asking:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._leave)

    async def close(self) -> None:
        """Gives everything back."""
        self._stop_waiting()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget)
        self._thread.shutdown(wait=False)

    def _answer(self, question: Callable[[History], T]) -> T:
        try:
            return question(self._current())
        except HistoryProblem as problem:
            raise UserError(problem.what, problem.remedy) from None
        except KeyboardInterrupt:  # how the history says that it was interrupted
            raise UserError("The query was interrupted.") from None

    def _current(self) -> History:
        now = self._clock()
        without_kafka = self._history is not None and self._history.without_kafka is not None
        if self._history is not None and (without_kafka or now - self._opened > LONGEST_SECONDS):
            self._forget()
        if self._history is None:
            self._history, self._opened, self._moved = self._open(), now, now
        elif now - self._moved > FRESH_SECONDS:
            self._history.moved_on()
            self._moved = now
        return self._history

    def _interrupt(self) -> None:
        if (history := self._history) is not None:
            history.interrupt()

    def _leave(self) -> None:
        """Whether there was no query for a while."""
        self._idle = None
        self._thread.submit(self._forget)

    def _forget(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


NICE = 10


def low_priority_thread(name: str) -> ThreadPoolExecutor:
    """One thread for work that can wait. On Linux a thread has a priority of its own, and those it starts have it."""
    return ThreadPoolExecutor(1, name, initializer=_lower_priority)


def _lower_priority() -> None:
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            lower = max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)
