"""What an event costs: what is taken off, and how it is shown. Measured by `python -m tools.benchmarks.scale`."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tools.benchmarks.scale import WIDTHS, Cost, Width, per_million, row, table
from tools.benchmarks.stack import Usage


def test_a_width_is_written_as_partitions_and_dispatchers() -> None:
    assert Width.of("16x4") == Width(16, 4)
    assert all(Width.of(str(width)) == width for width in WIDTHS)


def test_what_is_taken_when_idle_does_not_count() -> None:
    before, after = Usage(cpu_by_process={"kafka": 10.0}), Usage(cpu_by_process={"kafka": 22.0, "spark": 3.0})
    cost = per_million(before, after, idle={"kafka": 0.2}, seconds=10.0, events=100_000)
    assert cost == {"kafka": pytest.approx(100.0), "spark": pytest.approx(30.0)}
    assert per_million(before, before, {"kafka": 1.0}, 10.0, 1) == {"kafka": 0.0}


def test_widths_are_shown_in_their_order() -> None:
    cost = Cost(40_000, 20.0, 0, 0, 8.2, 1300.0, {"ingress": 88.4, "kafka": 100.0, "spark": 47.0, "control": 5.0})
    assert row(Width(4, 1), cost) == "| 4 | 1 | 88 | 100 | 47 | 0 | 240 | 8 | 1,300 | 0 |"
    shown = table({"16x1": asdict(cost), "1x1": asdict(cost)})
    assert [line.split()[1] for line in shown[-2:]] == ["1", "16"]
