"""The world of the conformance tests, and the file with their results that `penstock conformance report` reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from world import Sinks, World, running_sinks

from penstock.conformance.results import Outcome, Result, ResultFile, write
from running import Stack

_RESULTS_FILE = os.environ.get("CONFORMANCE_RESULTS")
_results: dict[str, Result] = {}
_started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@pytest.fixture(scope="session")
def sinks() -> Iterator[Sinks]:
    """One server for all sinks."""
    with running_sinks() as server:
        yield server


@pytest.fixture(scope="module")
def world(stack: Stack, sinks: Sinks, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace for the tests of one file."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_conformance_").replace("_", "-")
    world = World(stack, sinks, f"spec-{name}")
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace, "namespace": ""}})
    yield world
    world.close()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the result of each test, with what it printed and why it failed."""
    if report.when == "call" or report.outcome != "passed":
        outcome: Outcome = report.outcome
        evidence = [str(report.longrepr)] if report.failed else []
        if report.failed:
            evidence += [text for _, text in report.sections]
        problems = (str(report.longrepr).strip().splitlines()[-1],) if report.failed else ()
        _results[report.nodeid] = Result(report.nodeid, outcome, round(report.duration, 2), problems, tuple(evidence))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the results, where asked to."""
    if _RESULTS_FILE and _results:
        write(Path(_RESULTS_FILE), ResultFile("specifications", "penstock dev", _started, tuple(_results.values())))
