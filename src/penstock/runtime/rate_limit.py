"""The token bucket: a rate limit that allows short bursts. Pure: the time is given with each call."""

from __future__ import annotations

import math


class TokenBucket:
    """Fills with `rate` tokens a second, up to `burst`. It is full at first, unless a level is given."""

    __slots__ = ("_burst", "_filled_at", "_level", "_rate")

    def __init__(self, rate: float, burst: float, level: float | None = None) -> None:
        self._rate, self._burst = rate, burst
        self._level = float(burst if level is None else level)
        self._filled_at = math.inf

    def level(self, now: float) -> float:
        """How many tokens there are. A clock that was set back gives nothing and takes nothing."""
        self._level = min(self._burst, self._level + self._rate * max(0.0, now - self._filled_at))
        self._filled_at = now
        return self._level

    def take(self, now: float, amount: float = 1.0, *, reserve: float = 0.0) -> bool:
        """Takes so many tokens if there are as many, with so many left in reserve; whether they were taken."""
        if self.level(now) < amount + reserve:
            return False
        self._level -= amount
        return True

    def spend(self, amount: float) -> None:
        """Takes tokens for what has happened already. What is missing has to fill up first."""
        self._level -= amount


# How long to wait before something that failed is tried again.

MOST_DOUBLINGS = 60


def pause_after(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after so many failures in a row: `first` after the first one, then twice as long each time."""
    return min(first * float(1 << min(max(failures - 1, 0), MOST_DOUBLINGS)), longest)
