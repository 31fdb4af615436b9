"""A work queue: keys to reconcile, each once however often it was added, never two workers on the same key.

A key that failed is added again after a pause that doubles with each failure in a row.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from penstock.runtime.rate_limit import pause_after

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_ALARM_SECONDS = 24 * 3600.0
"""A later alarm goes off in between too: a timer does not notice that the clock was set."""


class WorkQueue(Generic[K]):
    """The keys of one kind that wait to be reconciled."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[K, None] = OrderedDict()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._later: set[asyncio.TimerHandle] = set()
        self._alarms: dict[K, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()
        self._passes: list[tuple[dict[K, int], asyncio.Event]] = []
        """How often each key must still be reconciled before a pass is over."""
        self._none_fails = asyncio.Event()
        self._none_fails.set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def add(self, key: K) -> None:
        """Adds the key; if it is being reconciled right now, it is reconciled again afterwards."""
        if key in self._running:
            self._again.add(key)
            return
        self._waiting[key] = None
        self._arrived.set()

    async def take(self) -> K:
        """The next key; the caller must call `done` for it."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        key, _ = self._waiting.popitem(last=False)
        self._running.add(key)
        return key

    def done(self, key: K, *, failed: bool) -> None:
        """The key has been reconciled."""
        self._running.discard(key)
        if failed:
            self._failures[key] = self._failures.get(key, 0) + 1
            self._none_fails.clear()
            self._add_later(key, pause_after(self._failures[key], FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
        else:
            self._failures.pop(key, None)
            if not self._failures:
                self._none_fails.set()
        for left, passed in self._passes:
            if left.get(key, 0) > 1:
                left[key] -= 1
            else:
                left.pop(key, None)
            if not left:
                passed.set()
        self._passes = [one for one in self._passes if one[0]]
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    async def passed(self) -> None:
        """Returns when every key that waits or runs now has been reconciled again. Keys that are added meanwhile do not
        count, so a key that is added again and again does not delay this."""
        left = dict.fromkeys(self._waiting, 1) | {key: 1 + (key in self._again) for key in self._running}
        if left:
            self._passes.append((left, passed := asyncio.Event()))
            await passed.wait()

    @property
    def fails(self) -> bool:
        """Whether there are keys that failed when they were last reconciled."""
        return bool(self._failures)

    async def recovered(self) -> None:
        """Returns when there are no such keys."""
        await self._none_fails.wait()

    def close(self) -> None:
        """Cancels all timers."""
        for handle in self._later:
            handle.cancel()
        self._later.clear()
        for handle in self._alarms.values():
            handle.cancel()
        self._alarms.clear()

    def add_at(self, key: K, seconds: float | None) -> None:
        """Sets the key's alarm: it is added after so many seconds. Replaces an earlier alarm; None cancels it."""
        before = self._alarms.pop(key, None)
        if before is not None:
            before.cancel()
        if seconds is None:
            return

        def arrive() -> None:
            self._alarms.pop(key, None)
            self.add(key)

        self._alarms[key] = asyncio.get_running_loop().call_later(min(seconds, LONGEST_ALARM_SECONDS), arrive)

    def _add_later(self, key: K, seconds: float) -> None:
        loop = asyncio.get_running_loop()

        def arrive() -> None:
            self._later.discard(handle)
            self.add(key)

        handle = loop.call_later(seconds, arrive)
        self._later.add(handle)
