"""`penstock backtest` as far as it gets without a stack: what is wrong is told before anything is started."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.backtest.report import BacktestReport, EventCounts, SampleEvent, TriggerResult, Window
from penstock.backtest.trials import Trial
from penstock.cli import app, backtest
from penstock.contract.routes import Route

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
ROUTE = Route("u", "Trigger", "default", "orders", "b")
TRIAL = Trial("default", "orders", "default/shop", "b", ROUTE, ROUTE)
RESULT = TriggerResult(
    TRIAL,
    {NOON: EventCounts(1200, 7, 2, 20)},
    added=((0, 8),),
    removed=((1, 3), (1, 4)),
    samples={
        (0, 8): SampleEvent("e8", "order", "/shop", "8841", NOON, 0, 8),
        (1, 3): SampleEvent("[red]e3", "order", "/shop", None, NOON, 1, 3),
    },
)
REPORT = BacktestReport((RESULT,), Window(NOON, NOON), 1200, 0.5)

runner = CliRunner()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--since", "tomorrow"], "Invalid time 'tomorrow' for --since"),
        (["--since", "1h", "--until", "2h"], "--until 2h is not after --since 1h"),
        (["--expect", "added~0"], "Invalid --expect added~0"),
        ([], "cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_is_told_at_once(arguments: list[str], text: str, tmp_path: Path) -> None:
    found = runner.invoke(app, ["backtest", "-f", str(tmp_path / "none.yaml"), *arguments])
    assert (found.exit_code, text in found.output) == (2, True)


def test_a_file_that_is_no_yaml_is_told(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("a: [")
    found = runner.invoke(app, ["backtest", "-f", str(file)])
    assert (found.exit_code, "is not valid YAML" in found.output) == (2, True)


def test_the_answer_is_a_chart_with_samples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    backtest._print(REPORT)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "Trigger default/orders of Broker default/shop",
        "would have matched 27 of 1,200 events; the current Trigger matched 22: 7 added, 2 removed",
    ]
    assert lines[3].split() == ["11-17", "12:00", "█" * 30, "27", "22", "7", "2"]
    assert lines[4:6] == [
        "  added 2026-11-17 12:00:00 order e8 from /shop subject 8841",
        "  removed 2026-11-17 12:00:00 order [red]e3 from /shop",
    ]
    assert lines[-1] == "1,200 events from 2026-11-17T12:00:00Z to 2026-11-17T12:00:00Z in 0.5 s, 2,400 a second"
