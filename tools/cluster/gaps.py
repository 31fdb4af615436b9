"""The longest time without a delivery, which is what subscribers see of a fault. Pure: moments are handed in.

Not only until the first delivery after the fault: what was hit may go on for a while, as executors do whose driver is
gone, and the pause comes after that.
"""

from __future__ import annotations


class Gaps:
    """Watches deliveries from a fault until nothing of it is left."""

    def __init__(self) -> None:
        self._last = 0.0
        self.longest = 0.0
        self.ended = 0.0
        """When the longest was over."""

    def begin(self, now: float) -> None:
        """A fault begins."""
        self._last, self.longest, self.ended = now, 0.0, now

    def delivered(self, now: float) -> None:
        """A subscriber took an event."""
        if now - self._last > self.longest:
            self.longest, self.ended = now - self._last, now
        self._last = now
