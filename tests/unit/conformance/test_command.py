"""`penstock conformance` where it needs no cluster: the report's files and exit codes, the manifests, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.conformance import report
from penstock.conformance.report import ConformanceResult, Outcome, ResultFile, write

ROWS = report.load()
ALL_TESTS = sorted({test for row in ROWS for test in row.tests})


def results(folder: Path, outcome: Outcome = "passed") -> None:
    found = [ConformanceResult(test, "passed") for test in ALL_TESTS[1:]]
    problem = ("too late",) if outcome == "failed" else ()
    found.append(ConformanceResult(ALL_TESTS[0], outcome, problems=problem, evidence=("received nothing",)))
    write(folder / "all.json", ResultFile("all", "here", "2026-01-01T00:00:00Z", tuple(found)))


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["conformance", *arguments])
    return ran.exit_code, ran.output


def test_a_report_over_passed_tests(tmp_path: Path) -> None:
    results(tmp_path)
    code, output = run("report", "--results", str(tmp_path))
    assert code == 0, output
    assert "0 failed" in output
    assert "0 not run" in output
    page = (tmp_path / "report" / "conformance.md").read_text()
    assert all(f"| {row.id} |" in page for row in ROWS)
    assert (tmp_path / "report" / "conformance.xml").exists()
    assert (tmp_path / "report" / "conformance.json").exists()


def test_a_report_over_a_failure_shows_the_evidence(tmp_path: Path) -> None:
    results(tmp_path, "failed")
    code, output = run("report", "--results", str(tmp_path), "--output", str(tmp_path / "out"))
    assert code == 1
    assert "failed" in output
    assert "problem: too late\nreceived nothing" in (tmp_path / "out" / "conformance.md").read_text()


def test_the_manifests_can_be_written_anywhere(tmp_path: Path) -> None:
    code, _ = run("manifests", str(tmp_path))
    assert code == 0
    assert len(list((tmp_path / "control-plane" / "event-delivery").glob("*.yaml"))) == 27


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "broker-lifecycle"), "Unknown suite broker-lifecycle"),
        (("run", "event-delivery", "--test", "99"), "Unknown test 99"),
        (("run", "event-delivery", "--kubeconfig", "/nonexistent/config"), "no kubeconfig"),
        (("report", "--results", "/nonexistent/results"), "There are no results"),
    ],
)
def test_what_cannot_be_done_is_refused_with_2(arguments: tuple[str, ...], sentence: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert sentence in " ".join(output.split())


def test_the_tests_of_other_rooms_can_be_listed() -> None:
    code, output = run("tests")
    assert code == 0
    assert all(line.startswith("tests/") and "::" in line for line in output.splitlines())
