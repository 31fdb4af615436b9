"""All thirteen event delivery tests, by the command that a person would use, within the promised three minutes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.conformance.catalog import TESTS
from penstock.conformance.report import read_all
from tests.running import Stack

LIMIT_SECONDS = 180


def conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`penstock conformance …`."""
    command = [sys.executable, "-m", "penstock.cli", "conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS + 60, check=False)


@pytest.mark.assertion("cp-delivery-01", "et-delivery-01")
def test_all_event_delivery_tests_pass_within_three_minutes(stack: Stack, tmp_path: Path) -> None:
    asked = os.environ.get("CONFORMANCE_RESULTS")
    folder = Path(asked).parent if asked else tmp_path / "results"
    began = time.monotonic()
    where = ("--kubeconfig", str(stack.kubeconfig), "--results", str(folder))
    # What is published is as strict as the command is; a machine that runs tests may pause.
    ran = conformance("run", "event-delivery", *where, *(() if asked else ("--late", "10")))
    took = time.monotonic() - began
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(TESTS)} of {len(TESTS)} passed" in ran.stdout
    assert took < LIMIT_SECONDS
    (run,) = [file for file in read_all(folder) if file.suite == "event-delivery"]
    assert {result.test: result.outcome for result in run.results} == {test.id: "passed" for test in TESTS}


@pytest.mark.assertion("cp-delivery-01")
def test_what_is_not_there_is_told(stack: Stack, tmp_path: Path) -> None:
    missing = conformance("run", "event-delivery", "--kubeconfig", str(tmp_path / "none"))
    assert (missing.returncode, "there is no kubeconfig" in missing.stderr) == (2, True)
    unknown = conformance("run", "event-delivery", "--test", "14", "--kubeconfig", str(stack.kubeconfig))
    assert (unknown.returncode, "Unknown test 14" in unknown.stderr) == (2, True)
    nothing = conformance("report", "--results", str(tmp_path))
    assert (nothing.returncode, "There are no results" in nothing.stderr) == (2, True)
