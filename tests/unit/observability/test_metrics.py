"""Metrics in one process and over several."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.observability import exposition, instruments
from penstock.observability import tombstones as forgotten
from penstock.observability.metrics import RouteMetrics, TargetMetrics


def sample(name: str, /, **labels: str) -> float | None:
    instruments.write_metrics()
    return instruments.REGISTRY.get_sample_value(name, labels)


@pytest.fixture
def recording() -> Iterator[None]:
    yield
    instruments.record_metrics(True)


def test_a_target_counts_what_it_accepts_and_rejects() -> None:
    target = TargetMetrics("Broker", "unit", "counting")
    target.accepted(3, 0.02)
    target.rejected(400)
    target.rejected(400)
    labels = {"kind": "Broker", "namespace": "unit", "name": "counting"}
    assert sample("penstock_events_accepted_total", **labels) == 3
    assert sample("penstock_requests_rejected_total", **labels, code="400") == 2
    assert sample("kn_eventing_dispatch_duration_seconds_bucket", **labels, code="202", le="0.025") == 1
    assert sample("kn_eventing_dispatch_duration_seconds_bucket", **labels, code="202", le="0.01") == 0
    target.forget()
    assert sample("penstock_events_accepted_total", **labels) is None


def test_a_route_counts_attempts_by_outcome_and_bounds_codes() -> None:
    route = RouteMetrics("Trigger", "unit", "trying")
    route.attempt("subscriber", "retryable", 503, 0.1)
    route.attempt("subscriber", "success", 200, 0.1)
    route.attempt("subscriber", "retryable", 742, 0.1)
    route.attempt("subscriber", "retryable", 0, 0.1)
    labels = {"kind": "Trigger", "namespace": "unit", "name": "trying"}
    assert sample("penstock_delivery_attempts_total", **labels, stage="subscriber", outcome="retryable") == 3
    assert sample("kn_eventing_dispatch_duration_seconds_count", **labels, code="0") == 2
    assert sample("kn_eventing_dispatch_duration_seconds_count", **labels, code="742") is None


def test_a_silent_route_takes_no_room() -> None:
    route = RouteMetrics("Trigger", "unit", "silent")
    route.lag.set(4)
    labels = {"kind": "Trigger", "namespace": "unit", "name": "silent"}
    assert sample("penstock_route_lag_events", **labels) == 4
    assert sample("penstock_events_matched_total", **labels) is None
    route.matched.inc()
    route.matched.inc()
    assert sample("penstock_events_matched_total", **labels) == 2


@pytest.mark.usefixtures("recording")
def test_nothing_is_recorded_when_metrics_are_off() -> None:
    instruments.record_metrics(False)
    target = TargetMetrics("Broker", "unit", "silent")
    target.accepted(1, 0.1)
    target.rejected(500)
    target.forget()
    assert sample("penstock_events_accepted_total", kind="Broker", namespace="unit", name="silent") is None


def test_the_newest_note_about_an_object_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    time = iter([1.0, 2.0, 3.0])
    notes = forgotten.Notes(lambda: next(time))
    gone, back = ("Trigger", "n", "gone"), ("Trigger", "n", "back")
    notes.forget(gone)
    notes.forget(back)
    notes.remember(back)
    notes.remember(("Trigger", "n", "never gone"))
    (tmp_path / f"9{forgotten.SUFFIX}").write_bytes(b'[["Trigger","n","back"],true,2.5]\n[["Trigg')
    assert forgotten.gone_objects(tmp_path) == {gone}


PROCESS = """
from penstock.observability.metrics import RouteMetrics, TargetMetrics
TargetMetrics("Broker", "n", "shared").accepted(2, 0.01)
gone = TargetMetrics("Broker", "n", "gone")
gone.accepted(1, 0.01)
gone.forget()
RouteMetrics("Trigger", "n", "left").lag.set(5)
"""


def test_processes_add_up_and_the_dead_and_deleted_are_left_out(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", PROCESS], check=True, env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        )
    text = exposition.render(tmp_path).decode()
    assert 'penstock_events_accepted_total{kind="Broker",name="shared",namespace="n"} 4.0' in text
    assert 'name="gone"' not in text
    assert "penstock_route_lag_events{" not in text


def test_an_object_that_comes_back_before_its_numbers_are_dropped_begins_anew() -> None:
    first = RouteMetrics("Trigger", "again", "t")
    first.matched.inc(5)
    first.forget()
    second = RouteMetrics("Trigger", "again", "t")
    second.matched.inc(2)
    assert sample("penstock_events_matched_total", kind="Trigger", namespace="again", name="t") == 2
