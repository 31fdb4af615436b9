"""How many events a Replay may begin with by now: a bucket that fills at its rate. Pure: the time is given in."""

from __future__ import annotations

BURST_SECONDS = 0.25
"""What may gather while a Replay waits for room. Little: whoever names a rate wants no more at once either."""


class ReplayPace:
    """The pace of one Replay in one task."""

    def __init__(self, rate: float | None, now: float) -> None:
        """`rate` are events a second; None: no limit."""
        self._rate, self._at = rate, now
        self._saved = 1.0

    def may(self, now: float) -> bool:
        """Whether another event may begin."""
        if self._rate is None:
            return True
        most = max(1.0, self._rate * BURST_SECONDS)
        self._saved = min(most, self._saved + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._saved >= 1.0

    def begun(self) -> None:
        """One has."""
        self._saved -= 1.0


def share(rate: float | None, partitions: int, of: int) -> float | None:
    """The part of a rate that is for a task with so many partitions of all."""
    return None if rate is None else rate * partitions / max(1, of)
