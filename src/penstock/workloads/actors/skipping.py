"""Which of the events that arrive a receiver rejects: decided by their number alone, counted from 1."""

from __future__ import annotations

from collections.abc import Callable

Skips = Callable[[int], bool]


def nothing(number: int) -> bool:
    """Every event is received."""
    return False


def first(count: int) -> Skips:
    """The first `count` events are rejected."""
    return lambda number: number <= count


class Fibonacci:
    """Only the events whose number is in the Fibonacci sequence (1, 2, 3, 5, 8, …) are received."""

    def __init__(self) -> None:
        self._previous, self._current = 1, 1

    def __call__(self, number: int) -> bool:
        if number != self._current:
            return True
        self._previous, self._current = self._current, self._previous + self._current
        return False
