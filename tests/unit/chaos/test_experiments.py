"""Experiments are found by name, say what they lack, and put their figures where those of before were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.chaos import report
from tools.chaos.__main__ import main
from tools.chaos.catalogue import experiments
from tools.chaos.freezes import PARTS
from tools.chaos.plan import VICTIMS
from tools.chaos.results import Result, Step


def test_everything_that_is_killed_can_be_frozen_for_minutes_alone() -> None:
    assert set(VICTIMS) < set(PARTS.values())
    assert set(PARTS) <= experiments().keys()


def test_each_experiment_says_what_it_does() -> None:
    known = experiments()
    assert all(name == one.name and one.what for name, one in known.items())
    assert len({one.what for one in known.values()}) == len(known)


def test_help_names_every_fault(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["chaos", "--help"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed and one.what in printed for name, one in experiments().items())


def test_an_unknown_fault_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["chaos", "--faults", "freeze-kafka,freeze-moon"])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    assert "unknown fault freeze-moon" in capsys.readouterr().err


def result(name: str, *, silence: float) -> Result:
    one = Result(7, 50.0, 0, name, accepted=1200)
    one.steps += [Step("first", 1.0, 0.5, silence, "said so"), Step("second", 2.0, 0.7, 1.0)]
    return one


def test_the_rows_of_an_experiment_replace_those_of_its_last_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.ROWS_BEGIN}\n{report.ROWS_END}\nafter\n")
    report.publish(result("retention", silence=9.0), page)
    report.publish(result("clock-back", silence=8.0), page)
    report.publish(result("retention", silence=7.0), page)
    lines = page.read_text().splitlines()
    rows = [line.split(" | ")[:4] for line in lines if line.startswith("| `")]
    assert rows == [
        ["| `clock-back`", "first", "0.5 s", "8.0 s"],
        ["| `clock-back`", "second", "0.7 s", "1.0 s"],
        ["| `retention`", "first", "0.5 s", "7.0 s"],
        ["| `retention`", "second", "0.7 s", "1.0 s"],
    ]
    assert (lines[0], lines[-1]) == ("before", "after")


def test_an_experiment_leaves_a_report_under_its_name(tmp_path: Path) -> None:
    report.write(result("clock-back", silence=8.0), tmp_path)
    assert json.loads((tmp_path / "clock-back.json").read_text())["steps"][0]["seen"] == "said so"
    assert "- first: said so" in (tmp_path / "clock-back.md").read_text()
