"""`penstock status` names the routes that are behind, the worst first, however many there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.status import ROUTES_SHOWN, _print_routes, routes_behind

RECORDING = """
import sys
from penstock.observability.instruments import write_metrics
from penstock.observability.metrics import RouteMetrics
for number in range(25):
    route = RouteMetrics("Trigger", "team", f"t{number}")
    route.lag.set(number)
    route.oldest.set(number * 2.5)
write_metrics()
print("recorded", flush=True)
sys.stdin.read()
"""


def test_the_worst_are_shown_and_the_others_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", RECORDING], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as recording:
        assert recording.stdout is not None
        assert recording.stdout.readline() == b"recorded\n"
        behind = routes_behind(tmp_path)
        recording.communicate()
    assert behind is not None
    assert [route["lag"] for route in behind] == list(range(24, 0, -1))
    assert behind[0] == {"kind": "Trigger", "namespace": "team", "name": "t24", "lag": 24, "oldest_seconds": 60.0}
    _print_routes(behind)
    printed = capsys.readouterr().out
    assert printed.count("trigger team/") == ROUTES_SHOWN
    assert printed.index("team/t24") < printed.index("team/t23")
    assert "and 14 more routes with 105 events" in printed


def test_that_nothing_is_known_is_not_called_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert routes_behind(tmp_path) is None
    _print_routes(None)
    _print_routes([])
    unknown, well = capsys.readouterr().out.split("\n\n")
    assert "not known" in unknown
    assert "no route is behind" in well
