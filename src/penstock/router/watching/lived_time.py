"""Time as the process lived it: what a watchdog may hold against others.

A process that was frozen, or that got no processor, finds on waking that much time has passed in which nothing
happened. Nobody stood still but itself, so a gap between two looks at the clock counts as no more than `longest_gap`.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class LivedTime:
    """A clock in seconds, for one thread that looks at it often."""

    def __init__(self, longest_gap: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_gap, self._clock = longest_gap, clock
        self._looked, self._lived = clock(), 0.0

    def __call__(self) -> float:
        """Seconds lived so far."""
        now = self._clock()
        self._lived += min(now - self._looked, self._longest_gap)
        self._looked = now
        return self._lived
