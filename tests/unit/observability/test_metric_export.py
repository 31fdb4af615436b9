"""Metrics by OTLP: the same numbers as Prometheus gets, in OpenTelemetry's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from penstock.observability.metric_export import MetricExport, interval_of, metrics_data, wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "carrier pigeon"}, False),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_variables_of_opentelemetry_decide(environment: dict[str, str], asked: bool) -> None:
    assert wanted(environment) is asked


def test_the_interval_is_in_milliseconds_and_never_tiny() -> None:
    assert [interval_of({"OTEL_METRIC_EXPORT_INTERVAL": text}) for text in ("", "5000", "1", "soon")] == [60, 5, 1, 60]


def test_every_kind_of_number_arrives_as_it_is() -> None:
    counted = CounterMetricFamily("penstock_events_accepted", "Accepted.", labels=("name",))
    counted.add_metric(("default",), 7.0)
    gauge = GaugeMetricFamily("penstock_route_lag_events", "Lag.", labels=("name",))
    gauge.add_metric(("t",), 3.0)
    took = HistogramMetricFamily("kn_eventing_dispatch_duration_seconds", "Took.", labels=("name",))
    took.add_metric(("t",), [("0.1", 4), ("1.0", 9), ("+Inf", 10)], 12.5)
    sent = encode_metrics(metrics_data([counted, gauge, took], 1, 2))
    metrics: dict[str, Any] = {one.name: one for one in sent.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics["penstock_events_accepted"].sum.is_monotonic
    assert metrics["penstock_events_accepted"].sum.data_points[0].as_double == 7
    assert metrics["penstock_route_lag_events"].gauge.data_points[0].as_double == 3
    assert metrics["kn_eventing_dispatch_duration_seconds"].unit == "s"
    [point] = metrics["kn_eventing_dispatch_duration_seconds"].histogram.data_points
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([4, 5, 1], [0.1, 1.0])
    assert (point.count, point.sum) == (10, 12.5)
    assert [(label.key, label.value.string_value) for label in point.attributes] == [("name", "t")]


class Collector:
    """Takes exports, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.exports, self.ended = failure, 0, False

    def export(self, data: object) -> None:
        self.exports += 1
        if self.failure is not None:
            raise self.failure

    def shutdown(self, milliseconds: float) -> None:
        self.ended = True


@pytest.mark.parametrize("failure", [None, OSError("nobody there")])
def test_a_last_export_is_made_at_the_end_and_a_collector_that_is_away_does_no_harm(
    tmp_path: Path, failure: Exception | None
) -> None:
    collector = Collector(failure)
    export = MetricExport(tmp_path, collector, 3600)  # type: ignore[arg-type]
    export.start()
    export.stop()
    assert (collector.exports, collector.ended) == (1, True)
