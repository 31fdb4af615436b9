"""How long to wait before something that failed is tried again."""

from __future__ import annotations

MOST_DOUBLINGS = 60


def pause_after(failures: int, first: float, longest: float) -> float:
    """Seconds to wait after so many failures in a row: `first` after the first one, then twice as long each time."""
    return min(first * float(1 << min(max(failures - 1, 0), MOST_DOUBLINGS)), longest)
