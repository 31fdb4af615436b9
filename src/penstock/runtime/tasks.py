"""Threads, tasks and loop callbacks with an owner: if one of them fails, the component fails.

Otherwise a component without one of its threads would look healthy and do nothing. A failure is harmless: the
supervisor or Spark restarts the component, and it resumes from its cursors."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

import structlog

log = structlog.get_logger()

Failed = Callable[[BaseException], None]
"""Called from any thread with the error that ended a part of a component."""

T = TypeVar("T")


class OwnedThread:
    """A thread that reports an exception to its owner."""

    def __init__(self, name: str, body: Callable[[], None], failed: Failed) -> None:
        self._name, self._body, self._failed = name, body, failed
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Waits for its end, if it was started."""
        if self._thread.ident is not None:
            self._thread.join(timeout=seconds)

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:
            log.exception("a thread ended by an exception", thread=self._name)
            self._failed(error)


class TaskScope:
    """The threads, callbacks and tasks of a component on an event loop. The first failure of one of them counts."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._has_failed = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()

    def fail(self, error: BaseException) -> None:
        """Ends the component. May be called from any thread; what is handed over afterwards no longer counts."""
        if self.failure is None:
            self.failure = error
        with contextlib.suppress(RuntimeError):  # a loop that has ended: so has the component
            self._loop.call_soon_threadsafe(self._has_failed.set)

    def hand_over(self, callback: Callable[..., None], *arguments: object) -> None:
        """Calls the function on the loop, from any thread. If it raises, the component fails."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.call, callback, *arguments)

    def call(self, callback: Callable[..., None], *arguments: object) -> None:
        """Calls the function, unless the component has failed; if it raises, it has."""
        if self.failure is not None:
            return
        try:
            callback(*arguments)
        except Exception as error:  # the component fails with it
            log.exception("a callback ended by an exception")
            self.fail(error)

    def start(self, work: Coroutine[Any, Any, object], name: str) -> asyncio.Task[object]:
        """Begins the work as a task. If it raises, the component has failed; if it ends well, it is forgotten."""
        task = self._loop.create_task(self.watch(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def ended(self, seconds: float) -> None:
        """Waits until nothing that was started runs any more, or so long."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=seconds)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it again

    async def close(self) -> None:
        """Cancels what was started and still runs, and waits for its end."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine; if it raises, the component has failed before anything else can run."""
        try:
            return await work
        except Exception as error:  # the component fails with it
            self.fail(error)
            raise

    def check(self) -> None:
        """Raises what the component failed with, if it did."""
        if self.failure is not None:
            raise self.failure

    async def failed(self) -> NoReturn:
        """Waits for a failure and raises it."""
        await self._has_failed.wait()
        raise self.failure or RuntimeError("it failed")
