"""Waiting for a condition: `eventually` in a thread, `until` in an event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any


def eventually(look: Callable[[], Any], seconds: float = 60.0, every: float = 0.1) -> Any:
    """The first true thing that `look` returns; fails with the last thing it saw."""
    deadline = time.monotonic() + seconds
    while True:
        seen: Any = None
        try:
            seen = look()
        except AssertionError as error:
            seen = error
        if seen and not isinstance(seen, AssertionError):
            return seen
        assert time.monotonic() < deadline, f"not within {seconds:g} s; last seen: {seen!r}"
        time.sleep(every)


async def until(look: Callable[[], Any], what: str = "", seconds: float = 60.0, every: float = 0.02) -> Any:
    """The first true thing that `look` returns, which may be a coroutine function; fails with what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; last seen: {seen!r}"
        await asyncio.sleep(every)
