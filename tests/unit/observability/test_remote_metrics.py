"""What a process on another machine counted is shown as if it had been counted here."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest

from penstock.kafka.task_reports import CHANGES, TaskReport, decode, reports_of
from penstock.observability import instruments
from penstock.observability.instruments import BUCKETS, REGISTRY
from penstock.observability.metrics import RouteMetrics
from penstock.observability.remote_metrics import KeptLines, MetricChange, Outbox
from penstock.observability.remote_numbers import RemoteNumbers

ROUTE = ("Trigger", "remote", "orders")


@pytest.fixture
def outbox(monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """This process as one on another machine."""
    fresh = instruments._Process()
    fresh.instruments = instruments._process.instruments
    monkeypatch.setattr(instruments, "_process", fresh)
    return instruments.send_metrics()


def changes_of(outbox: Outbox) -> list[MetricChange]:
    instruments.write_metrics()
    found = [msgspec.msgpack.encode(report) for report in reports_of("run", "dispatcher-0", outbox)]
    return [change for one in found for change in decode(one).changes]


def sample(name: str, **more: str) -> Any:
    labels = dict(zip(("kind", "namespace", "name"), ROUTE, strict=True)) | more
    return REGISTRY.get_sample_value(name, labels)


def test_a_gauge_that_is_true_or_false_does_not_make_a_report_unreadable(outbox: Outbox) -> None:
    counted = RouteMetrics(*ROUTE)
    counted.unreachable.set(True)
    counted.delivered.inc()
    assert {change.value for change in changes_of(outbox)} == {1.0, None}


def test_what_is_counted_elsewhere_is_added_here_and_only_once(outbox: Outbox) -> None:
    counted = RouteMetrics(*ROUTE)
    counted.delivered.inc(3)
    counted.attempt("subscriber", "success", 200, 0.02)
    counted.attempt("subscriber", "success", 200, 99.0)
    first = changes_of(outbox)
    counted.delivered.inc()
    second = changes_of(outbox)
    assert not changes_of(outbox), "nothing has changed since"
    assert sample("penstock_events_delivered_total") is None, "they are not shown where they were counted"
    numbers = RemoteNumbers()
    numbers.take("dispatcher-0", first)
    numbers.take("dispatcher-0", second)
    assert sample("penstock_events_delivered_total") == 4
    duration = "kn_eventing_dispatch_duration_seconds"
    assert sample(f"{duration}_count", code="200") == 2
    assert sample(f"{duration}_sum", code="200") == pytest.approx(99.02)
    assert sample(f"{duration}_bucket", code="200", le=str(BUCKETS[-1])) == 1


def test_what_tasks_show_is_one_number_and_goes_with_the_task(outbox: Outbox) -> None:
    counted = RouteMetrics(*ROUTE)
    counted.lag.set(5)
    counted.oldest.set(7)
    changes = changes_of(outbox)
    numbers = RemoteNumbers()
    numbers.take("dispatcher-0", changes)
    numbers.take("dispatcher-1", changes)
    assert (sample("penstock_route_lag_events"), sample("penstock_route_oldest_outstanding_seconds")) == (10, 7)
    numbers.ended("dispatcher-1")
    assert sample("penstock_route_lag_events") == 5


def test_an_object_that_is_gone_there_is_gone_here(outbox: Outbox) -> None:
    counted = RouteMetrics(*ROUTE)
    counted.lag.set(5)
    numbers = RemoteNumbers()
    numbers.take("dispatcher-0", changes_of(outbox))
    counted.forget()
    instruments.write_metrics()
    gone = [key for report in reports_of("run", "dispatcher-0", outbox) for key in report.gone]
    assert gone == [ROUTE]
    numbers.forget(gone[0])
    numbers.ended("dispatcher-0")
    instruments.write_metrics()


def test_what_this_version_does_not_know_is_passed_over() -> None:
    numbers = RemoteNumbers()
    numbers.take("dispatcher-0", [MetricChange("penstock_of_the_future_total", (), 1.0)])
    numbers.take("dispatcher-0", [MetricChange("penstock_events_delivered_total", ("Trigger",), 1.0)])
    assert sample("penstock_of_the_future_total") is None


def test_much_goes_in_pieces_and_lines_go_along() -> None:
    outbox = Outbox()
    for number in range(CHANGES + 1):
        outbox.metric("m", (str(number),)).inc(1)
    logger = logging.Logger("penstock.test")
    logger.addHandler(KeptLines(outbox))
    logger.warning("it is late")
    logger.info("it is early")
    reports = list(reports_of("run", "dispatcher-0", outbox))
    assert [len(report.changes) for report in reports] == [0, CHANGES, 1]
    assert reports[0].lines == ("it is late",)
    assert isinstance(reports[0], TaskReport)
    assert json.dumps(reports[0].host)
