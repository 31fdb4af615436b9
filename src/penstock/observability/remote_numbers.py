"""The numbers of tasks on other machines, as if this process had counted them. Used by one thread only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.observability.buffered_metrics import add_observations
from penstock.observability.instruments import Instrument, forget_object, instruments, use_labels
from penstock.observability.remote_metrics import MetricChange
from penstock.observability.tombstones import ObjectKey


class RemoteNumbers:
    """Adds up what tasks report. A gauge is the sum of what they show, or the largest of it, as its kind asks."""

    def __init__(self) -> None:
        self._known = {instrument.name: instrument for instrument in instruments()}
        self._shown: dict[tuple[str, tuple[str, ...]], dict[str, float]] = {}

    def take(self, instance: str, changes: Iterable[MetricChange]) -> None:
        """Takes a report in. A metric that this version does not have is passed over."""
        for change in changes:
            instrument = self._known.get(change.metric)
            if instrument is not None and len(change.labels) == len(instrument.labels):
                self._apply(instance, instrument, change)

    def forget(self, key: ObjectKey) -> None:
        """An object is gone."""
        self._shown = {name: shown for name, shown in self._shown.items() if name[1][:3] != key}
        forget_object(*key)

    def ended(self, instance: str) -> None:
        """A task has ended: its gauges no longer count, its counters do."""
        for (name, labels), shown in self._shown.items():
            if shown.pop(instance, None) is not None:
                self._show(self._known[name], labels, shown)

    def _apply(self, instance: str, instrument: Instrument, change: MetricChange) -> None:
        if instrument.kind == "gauge":
            shown = self._shown.setdefault((change.metric, change.labels), {})
            shown[instance] = change.value or 0.0
            self._show(instrument, change.labels, shown)
            return
        metric = use_labels(instrument, change.labels)
        if instrument.kind == "counter":
            metric.inc(change.amount)
        elif len(change.buckets) == len(metric._buckets):
            add_observations(metric, list(change.buckets), change.amount)

    def _show(self, instrument: Instrument, labels: tuple[str, ...], shown: dict[str, float]) -> None:
        metric: Any = use_labels(instrument, labels)
        together = max if instrument.metric._multiprocess_mode == "livemax" else sum
        metric.set(together(shown.values()) if shown else 0.0)
