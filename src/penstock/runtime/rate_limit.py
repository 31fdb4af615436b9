"""Rate limits and retry delays. Pure: the time is passed to each call."""

from __future__ import annotations

import math


class TokenBucket:
    """A rate limit that allows bursts: fills with `rate` tokens per second up to `burst`. Initially full by default."""

    __slots__ = ("_burst", "_filled_at", "_level", "_rate")

    def __init__(self, rate: float, burst: float, level: float | None = None) -> None:
        self._rate, self._burst = rate, burst
        self._level = float(burst if level is None else level)
        self._filled_at = math.inf

    def level(self, now: float) -> float:
        """The number of tokens. If the clock was set back, it does not change."""
        self._level = min(self._burst, self._level + self._rate * max(0.0, now - self._filled_at))
        self._filled_at = now
        return self._level

    def take(self, now: float, amount: float = 1.0, *, reserve: float = 0.0) -> bool:
        """Takes tokens if at least `amount` plus `reserve` are left; whether they were taken."""
        if self.level(now) < amount + reserve:
            return False
        self._level -= amount
        return True

    def spend(self, amount: float) -> None:
        """Takes tokens unconditionally; the level may become negative."""
        self._level -= amount


MOST_DOUBLINGS = 60


def pause_after(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after a number of consecutive failures: `first`, then doubled each time up to `longest`."""
    return min(first * float(1 << min(max(failures - 1, 0), MOST_DOUBLINGS)), longest)
