"""The metrics that are read often are the same as those that are served."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.observability.exposition import SharedMetrics
from penstock.observability.selected_metrics import SelectedMetrics
from penstock.operations.route_rates import COUNTED, accepted_of, counters_of

RECORDING = """
import sys
from penstock.observability.instruments import write_metrics
from penstock.observability.metrics import ATTEMPTS, DISPATCH, RouteMetrics, TargetMetrics
mine = int(sys.argv[1])
for number in range(4):
    name = ("Trigger", "team", f"t{number}")
    route = RouteMetrics(*name)
    route.lag.set(number + mine)
    route.oldest.set(number * mine)
    route.dropped.inc(mine)
    ATTEMPTS.bind(*name, "subscriber", "success").inc(number)
    ATTEMPTS.bind(*name, "subscriber", "retryable").inc(mine)
    for seconds in (0.001, 0.02, 0.3, 400):
        DISPATCH.bind(*name, "202").observe(seconds * mine)
TargetMetrics("Broker", "team", "b").accepted(mine, 0.1)
write_metrics()
print("recorded", flush=True)
sys.stdin.read()
"""


def test_what_is_read_often_is_what_is_served(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    recording = [
        subprocess.Popen(
            [sys.executable, "-c", RECORDING, str(number)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in (2, 3)
    ]
    try:
        for process in recording:
            assert process.stdout is not None
            assert process.stdout.readline() == b"recorded\n"
        selected = SelectedMetrics(tmp_path, COUNTED)
        for _ in range(2):
            served, read = list(SharedMetrics(tmp_path).collect()), selected.collect()
            assert counters_of(read) == counters_of(served)
            assert accepted_of(read) == accepted_of(served)
        (one, *_) = counters_of(selected.collect()).values()
        assert (one.dropped, one.lag, one.durations[float("inf")]) == (5, 5, 8)
    finally:
        for process in recording:
            process.communicate()
    after = next(iter(counters_of(SelectedMetrics(tmp_path, COUNTED).collect()).values()))
    assert (after.lag, after.dropped) == (0, 5), "gauges end with their process, counters do not"
