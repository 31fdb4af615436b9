"""Which events retention is about to remove, from Kafka and from the history. Pure.

Kafka removes the oldest events by age, or by the size of the partition. Age is known from Kafka's own timestamps; the
future size is estimated from the present rate of events. Only what the history keeps for longer is safe: events that
it does not have when Kafka is about to remove them are a sign that its writer cannot keep up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.dispatcher.matched_record import Matched
from penstock.history.reader.table_events import Stretch

SOON_SECONDS = 3600.0
"""How long before the removal a warning is given; half of the retention time if that is less."""
RATE_SECONDS = 600.0
"""Period over which the present rate is measured."""
RECORD_OVERHEAD, HEADER_OVERHEAD = 70, 4
"""Bytes that Kafka adds to a record, and to each of its headers, at most."""
USUAL_BYTES = 1200.0
"""Assumed size of an event on disk where none has been seen."""


class RetentionLimits(NamedTuple):
    """The limits of retention of a partition; infinite where there is none."""

    seconds: float
    bytes: float

    @property
    def soon_seconds(self) -> float:
        """How long before its removal an event counts as removed soon."""
        return min(SOON_SECONDS, self.seconds / 2)


def limits_of(config: Mapping[str, str]) -> RetentionLimits:
    """The limits by the configuration of a topic."""
    age, size = float(config.get("retention.ms", "-1")), float(config.get("retention.bytes", "-1"))
    return RetentionLimits(age / 1000 if age >= 0 else math.inf, size if size >= 0 else math.inf)


def bytes_of(events: Sequence[Matched]) -> float:
    """The average size of such events on disk."""
    if not events:
        return USUAL_BYTES
    total = sum(
        len(event.value or b"")
        + sum(len(name) + len(value or b"") + HEADER_OVERHEAD for name, value in event.fields.items())
        for event in events
    )
    return RECORD_OVERHEAD + total / len(events)


class EventRate:
    """The rate of events of a partition, from where it ended at several times."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def saw(self, end: int, now: float) -> float:
        """Events a second over the last minutes; 0 as long as there is nothing to compare with."""
        while len(self._seen) > 1 and now - self._seen[1][0] >= RATE_SECONDS:
            self._seen.popleft()
        self._seen.append((now, end))
        since, before = self._seen[0]
        return max(0, end - before) / (now - since) if now > since else 0.0


def horizon(first: int, end: int, aged: int, limits: RetentionLimits, *, rate: float, size: float) -> int:
    """Of events from `first` up to `end`, those before this one are removed from Kafka soon: of age, those before
    `aged`, or because so many more of this size come at this rate."""
    capacity = limits.bytes / size
    expected = min(rate * SOON_SECONDS, capacity / 2)
    by_size = end - math.floor(capacity - expected) if math.isfinite(capacity) else first
    return max(first, min(end, max(aged, by_size)))


class Forecast(NamedTuple):
    """Which events of one partition are removed soon."""

    horizon: int
    """Events before this one are gone from Kafka by then."""
    lasting: tuple[Stretch, ...] = ()
    """The events that the history still has by then, in order."""

    def is_near(self, waiting: int) -> bool:
        """Whether a route that waits with this event will lose any: not all from there on are in the history."""
        for stretch in self.lasting:
            if stretch.first <= waiting < stretch.end:
                waiting = stretch.end
        return waiting < self.horizon
