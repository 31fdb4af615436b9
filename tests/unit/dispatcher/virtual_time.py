"""An event loop whose time passes only when everybody waits, and then at once: nothing sleeps, and nothing is late.

The plugin that does the same for pytest leaves event loops open under Python 3.11, which our settings make an error.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Where the real loop would wait for its next timer, this one moves its clock to it."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return self._now

    def skip(self, seconds: float) -> None:
        self._now += seconds


class _SkippingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits for what will never happen")
            self._loop.skip(timeout)
        return ready


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that takes as long as its computing."""

    @functools.wraps(test)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> None:
        run(test(*arguments, **options))

    return wrapped


async def turns(count: int = 5) -> None:
    """Lets everybody go on as far as they can."""
    for _ in range(count):
        await asyncio.sleep(0)
