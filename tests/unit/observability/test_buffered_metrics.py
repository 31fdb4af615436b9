"""MetricBuffer: what is counted in passing arrives whole."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from penstock.observability.buffered_metrics import BufferedCounter, Distribution, MetricBuffer

BOUNDS = (0.1, 1.0, 5.0)


@given(st.lists(st.lists(st.floats(0, 10), max_size=10), max_size=5))
def test_a_distribution_is_what_prometheus_would_have_counted(rounds: list[list[float]]) -> None:
    registry = CollectorRegistry()
    direct = Histogram("direct", "d", buckets=BOUNDS, registry=registry)
    tallied = Histogram("tallied", "t", buckets=BOUNDS, registry=registry)
    buffer = MetricBuffer()
    distribution = Distribution(tallied, BOUNDS, buffer)
    for amounts in rounds:
        for amount in amounts:
            direct.observe(amount)
            distribution.observe(amount)
        buffer.write()
    for bound in ("0.1", "1.0", "5.0", "+Inf"):
        assert registry.get_sample_value("tallied_bucket", {"le": bound}) == registry.get_sample_value(
            "direct_bucket", {"le": bound}
        )
    assert abs((registry.get_sample_value("tallied_sum") or 0) - (registry.get_sample_value("direct_sum") or 0)) < 1e-6


def test_counts_survive_being_written_while_they_rise() -> None:
    registry = CollectorRegistry()
    buffer = MetricBuffer()
    tally = BufferedCounter(Counter("risen", "r", registry=registry), buffer)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            buffer.write()

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(50_000):
        tally.inc()
    done.set()
    writer.join()
    buffer.write()
    assert registry.get_sample_value("risen_total") == 50_000


def test_a_gauge_shows_its_newest_value() -> None:
    registry = CollectorRegistry()
    buffer = MetricBuffer()
    gauge = BufferedCounter(Gauge("level", "l", registry=registry), buffer)
    for value in (3, 0, 7):
        gauge.set(value)
    buffer.write()
    assert registry.get_sample_value("level") == 7


def test_what_did_not_change_is_not_written_again() -> None:
    buffer = MetricBuffer()
    tally = BufferedCounter(Counter("once", "o", registry=CollectorRegistry()), buffer)
    tally.inc()
    tally.inc()
    assert len(buffer.changed) == 1
    buffer.write()
    assert len(buffer.changed) == 0
