"""Counters, gauges and histograms as values: defined once with their text, cheap to use, nothing at all when off.

prometheus_client keeps the numbers, in files shared by all processes where `PROMETHEUS_MULTIPROC_DIR` names a folder
(it must be set before the first import). Labels are bound once per Broker or Trigger, then used without look-ups;
what is counted reaches prometheus_client a few times a second (see `buffered_metrics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from penstock.observability.buffered_metrics import BufferedCounter, Distribution, MetricBuffer
from penstock.observability.remote_metrics import Outbox
from penstock.observability.tombstones import Notes, ObjectKey

REGISTRY = CollectorRegistry()

OBJECT = ("kind", "namespace", "name")
"""The first labels of every metric about a Broker, Channel, Trigger or Subscription."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Knative's, in seconds."""

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["livesum", "livemax"]


class Bound(Protocol):
    """An instrument with its labels set."""

    def inc(self, amount: float = 1) -> None: ...
    def set(self, value: float) -> None: ...
    def observe(self, amount: float) -> None: ...


class _Nothing:
    """Stands in for every instrument when metrics are off."""

    def inc(self, amount: float = 1) -> None:
        """Counts nothing."""

    def set(self, value: float) -> None:
        """Keeps nothing."""

    def observe(self, amount: float) -> None:
        """Observes nothing."""


NOTHING: Bound = _Nothing()


@dataclass(frozen=True)
class Instrument:
    """One metric: its definition, and the numbers behind it."""

    name: str
    """Full name as Prometheus shows it, `_total` and unit included."""
    kind: Kind
    text: str
    labels: tuple[str, ...]
    metric: Any

    def bind(self, *values: str) -> Bound:
        """The instrument with its labels set, in the order of `labels`; keep it, do not bind per event."""
        if not _process.recording:
            return NOTHING
        if self.labels[:3] == OBJECT:
            _process.use((values[0], values[1], values[2]), self.metric, values)
        if _process.outbox is not None:
            metric: Any = _process.outbox.metric(self.name, values)
        else:
            metric = self.metric.labels(*values) if self.labels else self.metric
        _process.buffer.start()
        if self.kind == "histogram":
            return Distribution(metric, BUCKETS, _process.buffer)
        return BufferedCounter(metric, _process.buffer)


class _Process:
    """What holds for this process."""

    def __init__(self) -> None:
        self.recording = True
        self.outbox: Outbox | None = None
        """Where numbers go that are shown elsewhere."""
        self.notes = Notes()
        self.buffer = MetricBuffer()
        self.instruments: list[Instrument] = []
        self._bound: dict[ObjectKey, set[tuple[Any, tuple[str, ...]]]] = {}
        """Metrics and labels in use, by object."""
        self._forgotten: dict[ObjectKey, None] = {}
        """Objects that are gone, whose numbers are still to be dropped."""

    def use(self, key: ObjectKey, metric: Any, labels: tuple[str, ...]) -> None:
        """An object is measured, perhaps again after it was gone."""
        if key in self._forgotten:
            self.buffer.write()
        self.notes.remember(key)
        self._bound.setdefault(key, set()).add((metric, labels))

    def forget(self, key: ObjectKey) -> None:
        """An object is gone. Its numbers are dropped in the background: a hundred at once would take long."""
        self._forgotten[key] = None
        self.buffer.later(self._drop)

    def _drop(self) -> None:
        while self._forgotten:
            key = next(iter(self._forgotten))
            for metric, labels in self._bound.pop(key, ()):
                # Not `remove`: it warns that the shared files keep the labels, which is what the notes are for.
                with metric._lock:
                    metric._metrics.pop(labels, None)
            self.notes.forget(key)
            if self.outbox is not None:
                self.outbox.forget(key)
            del self._forgotten[key]


_process = _Process()


def record_metrics(wanted: bool) -> None:
    """Turns recording on or off for this process; to be called before anything is bound."""
    _process.recording = wanted


def send_metrics() -> Outbox:
    """Keeps what is counted from now on for an exporter; to be called before anything is bound."""
    _process.outbox = _process.outbox or Outbox()
    return _process.outbox


def use_labels(instrument: Instrument, labels: tuple[str, ...]) -> Any:
    """The metric of prometheus_client with its labels, for numbers that were counted elsewhere."""
    if instrument.labels[:3] == OBJECT:
        _process.use((labels[0], labels[1], labels[2]), instrument.metric, labels)
    return instrument.metric.labels(*labels) if labels else instrument.metric


def write_metrics() -> None:
    """Makes everything counted so far visible now; a process does so when it ends, and a few times a second."""
    _process.buffer.write()


def instruments() -> tuple[Instrument, ...]:
    """Every metric there is."""
    return tuple(_process.instruments)


def forget_object(kind: str, namespace: str, name: str) -> None:
    """Drops all numbers about an object that is gone."""
    if not _process.recording:
        return
    _process.forget((kind, namespace, name))


def counter(name: str, text: str, *labels: str) -> Instrument:
    """A number that only rises; its name ends in `_total`."""
    return _defined(Instrument(name, "counter", text, labels, Counter(name, text, labels, registry=REGISTRY)))


def gauge(name: str, text: str, *labels: str, merge: Merge) -> Instrument:
    """A number that rises and falls; `merge` says how the values of several processes become one."""
    metric = Gauge(name, text, labels, registry=REGISTRY, multiprocess_mode=merge)
    return _defined(Instrument(name, "gauge", text, labels, metric))


def histogram(name: str, text: str, *labels: str) -> Instrument:
    """A distribution of seconds."""
    metric = Histogram(name, text, labels, registry=REGISTRY, buckets=BUCKETS)
    return _defined(Instrument(name, "histogram", text, labels, metric))


def _defined(instrument: Instrument) -> Instrument:
    _process.instruments.append(instrument)
    return instrument
