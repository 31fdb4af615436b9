"""Pauses that grow."""

from __future__ import annotations

from penstock.runtime.rate_limit import pause_after


def test_a_pause_doubles_until_it_is_the_longest() -> None:
    assert [pause_after(failures, 0.1, 1.0) for failures in range(7)] == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert pause_after(10**6, 0.1, 30.0) == 30.0
