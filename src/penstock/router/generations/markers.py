"""Markers: small records that pass through the router like events, and show that it works, and how fast.

A marker goes into each partition of `penstock.events`; the query passes it on to `penstock.matched`. While there is
traffic one is sent every few seconds, so that the newest record of each partition of `penstock.matched` is never much
older than what has been routed, even where nothing matches. `MarkerWatch` is pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.kafka.fences import MarkerWriter
from penstock.kafka.topic_ends import Retained
from penstock.router.matched_record import Marker, MatchedRecord


@dataclass
class MarkerRound:
    """Markers sent together, and the partitions in which they have not come out yet."""

    marker: Marker
    missing: set[int]
    timed: bool = True
    """Whether its transit says how fast the router is; not so where it waits for a query to start."""
    transit_ms: float = 0.0

    def saw(self, record: MatchedRecord) -> None:
        """Takes note of a record of `penstock.matched`. Only the generation that was marked counts."""
        if record.marker == self.marker and record.generation == self.marker.generation:
            self.missing.discard(record.partition)
            self.transit_ms = max(self.transit_ms, float(record.written_ms - self.marker.sent_ms))

    @property
    def complete(self) -> bool:
        """Whether the marker has come out of every partition it went into."""
        return not self.missing


@dataclass(frozen=True)
class Routed:
    """The newest origin that a generation has written to a partition, as far as it was seen."""

    generation: int
    origin: int


@dataclass
class MarkerWatch:
    """What the markers say about the running generation."""

    interval: float
    timed: Callable[[float], None] = lambda ms: None
    """Called with the transit time of each marker in milliseconds."""
    marked: dict[int, int] = field(default_factory=dict)
    """Offset after the newest marker of each partition of the events; what lies behind it is traffic."""
    routed: dict[int, Routed] = field(default_factory=dict)
    """How far the newest generation has got in each partition."""
    transit_ms: float | None = None
    lag: int = 0
    pending: MarkerRound | None = None
    _next: float = 0.0
    _moved: dict[int, float] = field(default_factory=dict)
    """When each partition last showed that it is routed."""

    def due(self, now: float) -> bool:
        """Whether it is time to look for traffic."""
        return self.pending is None and now >= self._next

    def busy(self, retained: Sequence[Retained]) -> list[int]:
        """Partitions that got something else than markers since their newest marker."""
        return [partition for partition, kept in enumerate(retained) if kept.end > self.marked.get(partition, 0)]

    def looked(self, now: float) -> None:
        """There was no traffic; look again an interval later."""
        self._next = now + self.interval

    def sent(self, marks: MarkerRound, offsets: dict[int, int], now: float, *, timed: bool = True) -> None:
        """Markers are under way."""
        marks.timed = timed
        self.pending = marks
        self.marked.update({partition: offset + 1 for partition, offset in offsets.items()})
        self._next = now + self.interval
        self._moved = dict.fromkeys(marks.missing, now)

    def saw(self, found: Iterable[MatchedRecord], now: float) -> None:
        """Takes note of records of `penstock.matched`."""
        for record in found:
            self.routed[record.partition] = _further(self.routed.get(record.partition), record)
            if self.pending is not None and record.generation == self.pending.marker.generation:
                self._moved[record.partition] = now
                self.pending.saw(record)
        if self.pending is not None and self.pending.complete:
            if self.pending.timed:
                self.transit_ms = self.pending.transit_ms
                self.timed(self.transit_ms)
            self.pending = None

    def reset(self, now: float) -> None:
        """Until now no marker could come out, for reasons that are not the query's."""
        self._moved = dict.fromkeys(self._moved, now)

    def late(self, now: float) -> dict[int, float]:
        """The partitions whose marker is still to come out, and the seconds since each last showed anything.

        A partition that works through a backlog shows that: one of every so many events is written, match or not.
        """
        return {} if self.pending is None else {number: now - self._moved[number] for number in self.pending.missing}

    def origin(self, record: MatchedRecord) -> int:
        """The newest origin that the writer of a partition's newest record has written there.

        A task that Spark ran again before its query was stopped has written old origins behind the newest one. What
        another generation had written before says nothing: it may not have known all routes.
        """
        routed = self.routed.get(record.partition)
        if routed is None or routed.generation != record.generation:
            return record.origin
        return max(record.origin, routed.origin)

    def measure(self, retained: Sequence[Retained]) -> None:
        """Counts the events that have not been routed, as far as written records show."""
        self.lag = sum(max(0, kept.end - max(kept.first, self._next_origin(n))) for n, kept in enumerate(retained))

    def _next_origin(self, partition: int) -> int:
        routed = self.routed.get(partition)
        return 0 if routed is None else routed.origin + 1


def _further(before: Routed | None, record: MatchedRecord) -> Routed:
    if before is None or record.generation > before.generation:
        return Routed(record.generation, record.origin)
    if record.generation < before.generation:
        return before
    return Routed(record.generation, max(record.origin, before.origin))


class MarkerSender:
    """Sends rounds of markers."""

    def __init__(self, writer: MarkerWriter) -> None:
        self._writer = writer
        self._sequence = 0

    def send(self, generation: int, partitions: Iterable[int], warm_up: int = 0) -> tuple[MarkerRound, dict[int, int]]:
        """One marker into each partition, behind as many older ones to warm up with; returns their offsets."""
        self._sequence += 1
        marker = Marker(generation, self._sequence, int(time.time() * 1000))
        rehearsal = Marker(generation, 0, marker.sent_ms)
        wanted = set(partitions)
        offsets = self._writer.write([each.encode() for each in [rehearsal] * warm_up + [marker]], wanted)
        return MarkerRound(marker, wanted), offsets
