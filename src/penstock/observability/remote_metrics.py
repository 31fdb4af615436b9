"""The metrics of a process that shares no folder with the metrics endpoint: kept until they are sent.

What is counted costs the same as elsewhere: it is gathered in plain attributes first, and added here a few times a
second (see `buffered_metrics`). Only changes are processed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field

import msgspec

from penstock.observability.tombstones import ObjectKey

LINES = 50
"""Lines that wait to be sent; of more the oldest go."""


class MetricChange(msgspec.Struct, frozen=True, array_like=True):
    """How one number has changed."""

    metric: str
    labels: tuple[str, ...]
    amount: float = 0.0
    """What a counter counted, or the sum of what a histogram observed."""
    value: float | None = None
    """What a gauge shows."""
    buckets: tuple[int, ...] = ()
    """What a histogram counted."""


@dataclass
class Pending:
    """What has come of one number since it was last sent. Stands in for a metric of prometheus_client."""

    outbox: Outbox
    metric: str
    labels: tuple[str, ...]
    amount: float = 0.0
    value: float | None = None
    counts: list[int] = field(default_factory=list)

    def inc(self, amount: float) -> None:
        """Counts."""
        with self.outbox.lock:
            self.amount += amount
            self.outbox.changed[self.metric, self.labels] = self

    def set(self, value: float) -> None:
        """Keeps the value of a gauge."""
        with self.outbox.lock:
            self.value = float(value)  # who reads the report takes no truth for a number
            self.outbox.changed[self.metric, self.labels] = self

    def observe_many(self, counts: list[int], total: float) -> None:
        """Takes observations, by bucket, and their sum."""
        with self.outbox.lock:
            before = self.counts or [0] * len(counts)
            self.counts = [one + more for one, more in zip(before, counts, strict=True)]
            self.amount += total
            self.outbox.changed[self.metric, self.labels] = self

    def take(self) -> MetricChange:
        """The changes to send, which are no longer pending afterwards; a gauge keeps its value."""
        change = MetricChange(self.metric, self.labels, self.amount, self.value, tuple(self.counts))
        self.amount, self.counts = 0.0, []
        return change


class Outbox:
    """Everything of this process that is still to be sent. One thread counts, another sends."""

    def __init__(self) -> None:
        self.changed: dict[tuple[str, tuple[str, ...]], Pending] = {}
        self.lines: deque[str] = deque(maxlen=LINES)
        self._gone: list[ObjectKey] = []
        self.lock = threading.Lock()

    def metric(self, name: str, labels: tuple[str, ...]) -> Pending:
        """The stand-in for a metric with its labels."""
        return Pending(self, name, labels)

    def forget(self, key: ObjectKey) -> None:
        """An object is gone."""
        with self.lock:
            self._gone.append(key)

    def take(self) -> tuple[list[MetricChange], list[ObjectKey], list[str]]:
        """What has changed, the deleted objects and the log lines since the last time."""
        with self.lock:
            changes = [self.changed.pop(key).take() for key in list(self.changed)]
            gone, self._gone = self._gone, []
        return changes, gone, [self.lines.popleft() for _ in range(len(self.lines))]


class KeptLines(logging.Handler):
    """Keeps warnings and errors, beside where else they are written."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(logging.WARNING)
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one."""
        self._outbox.lines.append(self.format(record))
