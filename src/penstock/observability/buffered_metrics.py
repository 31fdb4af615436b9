"""Numbers kept in plain attributes and written to prometheus_client a few times a second.

Its values live in files shared by all processes, and each change of one asks the system for the process id and packs
doubles: 5 to 20 microseconds for an event, a sixth of what a delivery costs. A buffered number costs one addition. What
a killed process counted within its last `FLUSH_SECONDS` is missing from the metrics; no event depends on them.

It belongs to one thread (the event loop of its component); the writing thread only reads it, so nothing is locked.
"""

from __future__ import annotations

import atexit
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.observability.remote_metrics import Pending

FLUSH_SECONDS = 0.25


class BufferedCounter:
    """A counter or gauge."""

    __slots__ = ("_buffer", "_dirty", "_metric", "_total", "_value", "_written")

    def __init__(self, metric: Any, buffer: MetricBuffer) -> None:
        self._metric, self._buffer = metric, buffer
        self._total = self._written = 0.0
        self._value: float | None = None
        self._dirty = False

    def inc(self, amount: float = 1) -> None:
        """Counts."""
        self._total += amount
        if not self._dirty:
            self._dirty = True
            self._buffer.changed.append(self)

    def set(self, value: float) -> None:
        """Keeps the value of a gauge."""
        self._value = value
        if not self._dirty:
            self._dirty = True
            self._buffer.changed.append(self)

    def observe(self, amount: float) -> None:
        """A counter or gauge observes nothing."""
        raise TypeError("only a histogram observes")

    def write(self) -> None:
        """Hands on what has come since the last time."""
        self._dirty = False
        total, value = self._total, self._value
        if total != self._written:
            self._metric.inc(total - self._written)
            self._written = total
        if value is not None:
            self._metric.set(value)


class Distribution:
    """A histogram."""

    __slots__ = ("_bounds", "_buffer", "_counts", "_dirty", "_metric", "_sum", "_written", "_written_sum")

    def __init__(self, metric: Any, bounds: tuple[float, ...], buffer: MetricBuffer) -> None:
        self._metric, self._bounds, self._buffer = metric, bounds, buffer
        self._counts = [0] * (len(bounds) + 1)
        self._written = [0] * (len(bounds) + 1)
        self._sum = self._written_sum = 0.0
        self._dirty = False

    def inc(self, amount: float = 1) -> None:
        """A histogram does not count."""
        raise TypeError("a histogram observes")

    def set(self, value: float) -> None:
        """A histogram keeps no value."""
        raise TypeError("a histogram observes")

    def observe(self, amount: float) -> None:
        """Takes one observation."""
        self._counts[bisect_left(self._bounds, amount)] += 1
        self._sum += amount
        if not self._dirty:
            self._dirty = True
            self._buffer.changed.append(self)

    def write(self) -> None:
        """Hands on what has come since the last time."""
        self._dirty = False
        counts, total = list(self._counts), self._sum
        add_observations(
            self._metric,
            [count - written for count, written in zip(counts, self._written, strict=True)],
            total - self._written_sum,
        )
        self._written, self._written_sum = counts, total


def add_observations(metric: Any, counts: list[int], total: float) -> None:
    """Adds so many observations to each bucket of a histogram, and their sum."""
    if isinstance(metric, Pending):
        metric.observe_many(counts, total)
        return
    # prometheus_client takes observations one by one only; its buckets take many at once.
    for bucket, count in zip(metric._buckets, counts, strict=True):
        if count:
            bucket.inc(count)
    metric._sum.inc(total)


class MetricBuffer:
    """The numbers of a process that have changed, and the thread that writes them."""

    def __init__(self) -> None:
        self.changed: deque[BufferedCounter | Distribution] = deque()
        self._lock = threading.Lock()
        self._afterwards: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    def later(self, action: Callable[[], None]) -> None:
        """Does something after the next writing, in the background."""
        self._afterwards.append(action)
        self.start()

    def start(self) -> None:
        """Writes from now on, in the background."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
                self._thread.start()
                atexit.register(self.write)

    def write(self) -> None:
        """Writes everything that has changed."""
        with self._lock:
            while self.changed:
                self.changed.popleft().write()
            while self._afterwards:
                self._afterwards.popleft()()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(FLUSH_SECONDS):
            self.write()
