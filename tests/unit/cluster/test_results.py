"""When a run on a cluster has failed: what was lost always counts, times where the machine was quick enough."""

from __future__ import annotations

import json
from pathlib import Path

from tools.chaos.checker import Findings, Lost
from tools.cluster import results, yardstick
from tools.cluster.results import Outcome, Result

GOOD = Outcome("killed", "pipeline-1", take_over=13.0, over=20.0, pause=21.5)
LATE = Outcome("killed", "pipeline-1", take_over=16.0, over=40.0, pause=41.5)


def of(*outcomes: Outcome) -> Result:
    return Result(list(outcomes), accepted=10, deliveries=30, counted=30)


def test_times_within_their_bounds_break_nothing() -> None:
    assert of(GOOD).broken == []


def test_a_pause_and_a_take_over_that_last_too_long_are_named() -> None:
    assert of(GOOD, LATE).broken == [
        "pipeline-1 killed: nothing was delivered for 41.5 s",
        "pipeline-1 killed: its role was taken over after 16.0 s",
    ]


def test_on_a_slow_machine_times_are_told_and_not_counted() -> None:
    slow = Outcome("killed", "pipeline-1", 16.0, 40.0, 41.5, slowness=yardstick.QUICK + 0.1)
    found = of(slow)
    assert found.broken == []
    assert len(found.excused) == 2
    assert "because the machine was too slow: pipeline-1 killed: nothing was delivered for 41.5 s" in results.markdown(
        found
    )


def test_a_lost_event_counts_on_every_machine() -> None:
    slow = Outcome("killed", "pipeline-1", 16.0, 40.0, 41.5, slowness=99.0)
    found = of(slow)
    found.findings = Findings(lost=[Lost("all", "7")])
    (said,) = found.broken
    assert said.startswith("1 events lost")


def test_deliveries_that_no_metric_counts_break_a_promise() -> None:
    found = of(GOOD)
    found.counted = 0
    assert found.broken == ["/metrics of the pipelines counts no deliveries"]


def test_the_report_has_a_row_for_each_fault(tmp_path: Path) -> None:
    found = of(GOOD)
    found.left_out.append("a fault, for want of time")
    results.write(found, tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "| pipeline-1 | killed | 13.0 s | 21.5 s | 20.0 s | 1.0 |" in page
    assert "LEFT OUT: a fault, for want of time" in page
    assert json.loads((tmp_path / "report.json").read_bytes())["broken"] == []
