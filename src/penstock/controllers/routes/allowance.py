"""How much may be written now, so that in the long run it is not more than so much a second."""

from __future__ import annotations


class Allowance:
    """Grows with time up to `most`; a part of it is `kept` for what is urgent."""

    def __init__(self, per_second: float, most: int, kept: int) -> None:
        self._per_second, self._most, self._kept = per_second, most, kept
        self._left, self._grown_at = float(most), float("inf")

    def grow(self, now: float) -> None:
        """So late is it; a clock that was set back gives nothing and takes nothing."""
        self._left = min(self._most, self._left + self._per_second * max(0.0, now - self._grown_at))
        self._grown_at = now

    def use(self, *, urgent: bool) -> bool:
        """Whether one more may be written; if so, it is taken off."""
        if self._left < 1 + (0 if urgent else self._kept):
            return False
        self._left -= 1
        return True
