"""Which events retention is about to remove, from Kafka and from the history. Pure.

Kafka removes the oldest events when they are too old, or when what came after them is too much. The first is known by
Kafka's own times; for the second, how much there will be is reckoned from how fast events come now. What the history
keeps for longer is safe, and so is nothing else: events that are still unwritten when Kafka is about to remove them are
a sign that the writer cannot keep up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.dispatcher.matched_record import Matched
from penstock.history.reader.table_events import Stretch

SOON_SECONDS = 3600.0
"""How long before the removal a route is warned; half of the time that events are kept where that is less."""
RATE_SECONDS = 600.0
"""Over which the present rate is measured."""
RECORD_OVERHEAD, HEADER_OVERHEAD = 70, 4
"""Bytes that Kafka adds to a record, and to each of its headers, at most."""
USUAL_BYTES = 1200.0
"""Of an event on disk, where none has been seen."""


class RetentionLimits(NamedTuple):
    """What Kafka keeps of a partition; infinite where there is no limit."""

    seconds: float
    bytes: float

    @property
    def soon_seconds(self) -> float:
        """How long before its removal an event is removed soon."""
        return min(SOON_SECONDS, self.seconds / 2)


def limits_of(config: Mapping[str, str]) -> RetentionLimits:
    """The limits by the configuration of a topic."""
    age, size = float(config.get("retention.ms", "-1")), float(config.get("retention.bytes", "-1"))
    return RetentionLimits(age / 1000 if age >= 0 else math.inf, size if size >= 0 else math.inf)


def bytes_of(events: Sequence[Matched]) -> float:
    """How much room an event like these takes on average."""
    if not events:
        return USUAL_BYTES
    total = sum(
        len(event.value or b"")
        + sum(len(name) + len(value or b"") + HEADER_OVERHEAD for name, value in event.fields.items())
        for event in events
    )
    return RECORD_OVERHEAD + total / len(events)


class EventRate:
    """How fast events come to a partition, by where it ended at several moments."""

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
    room = limits.bytes / size
    coming = min(rate * SOON_SECONDS, room / 2)
    crowded = end - math.floor(room - coming) if math.isfinite(room) else first
    return max(first, min(end, max(aged, crowded)))


class Forecast(NamedTuple):
    """What is removed soon of one partition."""

    horizon: int
    """Events before this one are gone from Kafka by then."""
    lasting: tuple[Stretch, ...] = ()
    """What the history has, and still has by then, in order."""

    def is_near(self, waiting: int) -> bool:
        """Whether a route that waits with this event will lose any: not all from there on are kept elsewhere."""
        for stretch in self.lasting:
            if stretch.first <= waiting < stretch.end:
                waiting = stretch.end
        return waiting < self.horizon
