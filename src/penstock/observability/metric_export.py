"""Metrics by OTLP, beside Prometheus' endpoint: the same numbers, sent where OpenTelemetry's variables say.

They are read from the folder that the processes share, so one process exports for all. Nothing of OpenTelemetry is
loaded only where it is enabled.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client.metrics_core import Metric

from penstock.observability.exposition import SharedMetrics
from penstock.observability.logs import describe

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData

log = structlog.get_logger()

DEFAULT_INTERVAL_MS = 60_000
LEAST_INTERVAL_SECONDS = 1.0
END_SECONDS = 5.0


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for metrics by OTLP over HTTP."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_METRICS_EXPORTER", "").strip()
    if exporter not in ("", "otlp", "none"):
        log.error("metrics are not exported: the exporter is unknown", exporter=exporter, known="otlp, none")
        return False
    endpoint = environment.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    asked = exporter == "otlp" or (exporter == "" and bool(endpoint))
    protocol = environment.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if asked and protocol not in (None, "http/protobuf"):
        log.error("metrics are not exported: only OTLP over http/protobuf is supported", protocol=protocol)
        return False
    return asked


@contextmanager
def exporting(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Exports the metrics of the folder periodically and at the end, if an exporter is configured."""
    if not wanted(environment):
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    export = MetricExport(folder, OTLPMetricExporter(), interval_of(environment))
    export.start()
    try:
        yield
    finally:
        export.stop()


def interval_of(environment: Mapping[str, str]) -> float:
    """Seconds between two exports."""
    text = environment.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    milliseconds = int(text) if text.isascii() and text.isdigit() else DEFAULT_INTERVAL_MS
    return max(LEAST_INTERVAL_SECONDS, milliseconds / 1000)


class MetricExport:
    """Exports in a thread of its own. An unreachable collector misses the values of that moment only."""

    def __init__(self, folder: Path, exporter: MetricExporter, seconds: float) -> None:
        self._metrics, self._exporter, self._seconds = SharedMetrics(folder), exporter, seconds
        self._began = time.time_ns()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metric export", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Exports a last time and ends; whatever is not sent by then is not sent."""
        self._stop.set()
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.export()
        self.export()
        self._exporter.shutdown(END_SECONDS * 1000)

    def export(self) -> None:
        """Sends the numbers as they are."""
        try:
            self._exporter.export(metrics_data(self._metrics.collect(), self._began, time.time_ns()))
        except Exception as error:  # a failing collector must not affect the stack
            log.warning("metrics could not be exported", error=describe(error))


def metrics_data(metrics: Iterable[Metric], began: int, now: int) -> MetricsData:
    """Prometheus' metrics as OpenTelemetry's, with the same names; counters and histograms count from `began` on."""
    from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    unit = {True: "s", False: ""}
    converted = [
        OtlpMetric(metric.name, metric.documentation, unit[metric.name.endswith("_seconds")], data)
        for metric in metrics
        if (data := _data(metric, began, now)) is not None
    ]
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "penstock")})
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(InstrumentationScope("penstock"), converted, "")], "")])


def _data(metric: Metric, began: int, now: int) -> Any:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, NumberDataPoint, Sum

    cumulative = AggregationTemporality.CUMULATIVE
    if metric.type == "histogram":
        return Histogram(_distributions(metric, began, now), cumulative)
    points = [
        NumberDataPoint(sample.labels, began, now, sample.value)
        for sample in metric.samples
        if not sample.name.endswith("_created")
    ]
    if metric.type == "counter":
        return Sum(points, cumulative, is_monotonic=True)
    return Gauge(points) if metric.type == "gauge" else None


def _distributions(metric: Metric, began: int, now: int) -> list[Any]:
    """A data point for each set of labels: Prometheus counts up to each bound, OpenTelemetry between two of them."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    below: dict[tuple[tuple[str, str], ...], dict[float, float]] = defaultdict(dict)
    sums: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
    for sample in metric.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            below[labels][float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = []
    for labels, counts in below.items():
        bounds = sorted(counts)
        between = [round(counts[bound] - (counts[bounds[n - 1]] if n else 0)) for n, bound in enumerate(bounds)]
        finite = [bound for bound in bounds if bound != float("inf")]
        count, total = round(counts[bounds[-1]]), sums[labels]
        # The least and the greatest are not known, and left out.
        point = HistogramDataPoint(dict(labels), began, now, count, total, between, finite, None, None)  # type: ignore[arg-type]
        points.append(point)
    return points
