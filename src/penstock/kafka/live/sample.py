"""No more of what comes than a person can read, and of how much it is a sample."""

from __future__ import annotations

import time
from collections.abc import Callable

PER_SECOND = 50


class SampleLimit:
    """Lets so many through each second. Used by one thread only."""

    def __init__(
        self,
        say: Callable[[int, int], None],
        limit: int = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Calls `say` after each second in which something was left out: how many were let through, of how many."""
        self._say, self._limit, self._clock = say, limit, clock
        self._second, self._seen = int(clock()), 0

    def admits(self) -> bool:
        """Whether another one may be shown."""
        self.turn()
        self._seen += 1
        return self._seen <= self._limit

    @property
    def is_full(self) -> bool:
        """Whether nothing more is shown within this second."""
        return self._seen >= self._limit and int(self._clock()) == self._second

    def leave_out(self, count: int) -> None:
        """So many came that nobody has looked at."""
        self._seen += count

    def turn(self) -> None:
        """To be called now and then: says what was left out of the second that is over."""
        second = int(self._clock())
        if second != self._second:
            if self._seen > self._limit:
                self._say(self._limit, self._seen)
            self._second, self._seen = second, 0
