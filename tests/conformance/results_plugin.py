"""A plugin of pytest (`-p tests.conformance.results_plugin`) that writes results for `penstock conformance report`.

The file is named by CONFORMANCE_RESULTS. A plugin, not a conftest: rows of the assertions name tests of other folders
too, and their results belong into the same file.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.conformance.report import ConformanceResult, Outcome, ResultFile, write

_RESULTS_FILE = os.environ.get("CONFORMANCE_RESULTS")
_results: dict[str, ConformanceResult] = {}
_started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the result of each test, with what it printed and why it failed."""
    if report.when == "call" or report.outcome != "passed":
        outcome: Outcome = report.outcome
        evidence = [str(report.longrepr)] if report.failed else []
        if report.failed:
            evidence += [text for _, text in report.sections]
        problems = (str(report.longrepr).strip().splitlines()[-1],) if report.failed else ()
        _results[report.nodeid] = ConformanceResult(
            report.nodeid, outcome, round(report.duration, 2), problems, tuple(evidence)
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the results, where asked to."""
    if _RESULTS_FILE and _results:
        write(Path(_RESULTS_FILE), ResultFile("specifications", "penstock dev", _started, tuple(_results.values())))
