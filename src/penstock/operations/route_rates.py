"""Rates and latencies of the routes, calculated from two samples of their metrics. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from penstock.observability.metrics import ACCEPTED, ATTEMPTS, DISPATCH, DROPPED, LAG, OLDEST, OUTSTANDING, UNREACHABLE

ROUTES = ("Trigger", "Subscription")

COUNTED = (
    *(one.name for one in (ACCEPTED, ATTEMPTS, DROPPED, LAG, OUTSTANDING, OLDEST, UNREACHABLE)),
    f"{DISPATCH.name}_bucket",
)
"""Samples that the rates are calculated from."""


class RouteName(NamedTuple):
    """Identifies a route."""

    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """As `kind/name`, with the namespace unless it is `default`."""
        return f"{self.kind.lower()}/{self.name}" + ("" if self.namespace == "default" else f" ({self.namespace})")


class TargetName(NamedTuple):
    """Identifies a Broker or channel."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class TargetRow:
    """Rates of a Broker or channel."""

    rate: float
    """Events accepted per second."""


@dataclass
class Counters:
    """Counters of a route."""

    succeeded: float = 0
    failed: float = 0
    dropped: float = 0
    lag: float = 0
    outstanding: float = 0
    oldest: float = 0
    unreachable: bool = False
    durations: dict[float, float] = field(default_factory=lambda: defaultdict(float))
    """By upper bound in seconds, the number of attempts that took at most so long."""


@dataclass(frozen=True)
class RouteRow:
    """A route in a table."""

    route: RouteName
    rate: float
    """Deliveries per second."""
    failures: float
    """Failed attempts per second."""
    p50: float | None
    """Seconds; None where nothing was attempted."""
    p99: float | None
    lag: int
    outstanding: int
    oldest: float
    dropped: int
    unreachable: bool


def counters_of(metrics: Iterable[Metric]) -> dict[RouteName, Counters]:
    """The routes that have any metrics."""
    found: dict[RouteName, Counters] = defaultdict(Counters)
    for metric in metrics:
        for sample in metric.samples:
            if sample.labels.get("kind") in ROUTES:
                labels = sample.labels
                _add_sample(found[RouteName(labels["kind"], labels["namespace"], labels["name"])], sample)
    return dict(found)


def _add_sample(route: Counters, sample: Sample) -> None:
    match sample.name:
        case ATTEMPTS.name:
            if sample.labels.get("outcome") == "success":
                route.succeeded += sample.value if sample.labels.get("stage") == "subscriber" else 0
            else:
                route.failed += sample.value
        case DROPPED.name:
            route.dropped += sample.value
        case LAG.name:
            route.lag = sample.value
        case OUTSTANDING.name:
            route.outstanding = sample.value
        case OLDEST.name:
            route.oldest = sample.value
        case UNREACHABLE.name:
            route.unreachable = bool(sample.value)
        case name if name == f"{DISPATCH.name}_bucket":
            route.durations[float(sample.labels["le"])] += sample.value


def rows_of(
    before: Mapping[RouteName, Counters], after: Mapping[RouteName, Counters], seconds: float
) -> list[RouteRow]:
    """The rates between two samples."""
    return [_row(route, before.get(route, Counters()), now, seconds) for route, now in after.items()]


def _row(route: RouteName, was: Counters, now: Counters, seconds: float) -> RouteRow:
    took = {bound: count - was.durations.get(bound, 0) for bound, count in now.durations.items()}
    return RouteRow(
        route,
        rate=max(0.0, now.succeeded - was.succeeded) / seconds,
        failures=max(0.0, now.failed - was.failed) / seconds,
        p50=quantile(0.5, took),
        p99=quantile(0.99, took),
        lag=round(now.lag),
        outstanding=round(now.outstanding),
        oldest=now.oldest,
        dropped=round(now.dropped),
        unreachable=now.unreachable,
    )


def accepted_of(metrics: Iterable[Metric]) -> dict[TargetName, float]:
    """How many events each Broker and channel has accepted."""
    found: dict[TargetName, float] = defaultdict(float)
    for metric in metrics:
        for sample in metric.samples:
            if sample.name == ACCEPTED.name:
                labels = sample.labels
                found[TargetName(labels["kind"], labels["namespace"], labels["name"])] += sample.value
    return dict(found)


def target_rows_of(
    before: Mapping[TargetName, float], after: Mapping[TargetName, float], seconds: float
) -> dict[TargetName, TargetRow]:
    """The rates of Brokers and channels between two samples."""
    return {one: TargetRow(max(0.0, now - before.get(one, 0.0)) / seconds) for one, now in after.items()}


def quantile(part: float, buckets: Mapping[float, float]) -> float | None:
    """A quantile of a histogram, as Prometheus calculates it: linear within a bucket."""
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0
    if total <= 0:
        return None
    below, count_below = 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= part * total:
            if bound == float("inf") or count == count_below:
                return below
            return below + (bound - below) * (part * total - count_below) / (count - count_below)
        below, count_below = bound, count
    return below


SORTS = {
    "rate": lambda row: -row.rate,
    "latency": lambda row: -(row.p99 or 0.0),
    "lag": lambda row: -row.lag,
    "failures": lambda row: -row.failures,
    "name": lambda row: row.route,
}
