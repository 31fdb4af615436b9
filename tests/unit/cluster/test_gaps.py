"""The longest pause after a fault."""

from __future__ import annotations

from tools.cluster.gaps import Gaps


def test_the_longest_pause_counts_also_when_something_came_before_it() -> None:
    gaps = Gaps()
    gaps.begin(100.0)
    for moment in (100.1, 100.4, 121.0, 121.1):
        gaps.delivered(moment)
    assert round(gaps.longest, 6) == 20.6
    assert gaps.ended == 121.0


def test_each_fault_begins_anew() -> None:
    gaps = Gaps()
    gaps.begin(100.0)
    gaps.delivered(150.0)
    gaps.begin(160.0)
    gaps.delivered(160.5)
    assert gaps.longest == 0.5
