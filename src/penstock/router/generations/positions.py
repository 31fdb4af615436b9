"""Where routing resumes: pure decisions about offsets of `penstock.events`.

The newest record of a partition of `penstock.matched` carries the offset of the event it came from, and a query writes
the events of a partition in order. So everything up to that offset has been routed, and the next one is where a new
query starts. Spark's own checkpoint plays no part: it is written once per long batch only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from penstock.contract.routes import Route
from penstock.kafka.topic_ends import Retained


@dataclass(frozen=True)
class LostRange:
    """Events of a partition that were gone before they were routed, both ends included."""

    partition: int
    first: int
    last: int


@dataclass(frozen=True)
class StartOffsets:
    """Where a query starts in each partition, and what it can no longer read."""

    offsets: tuple[int, ...]
    gaps: tuple[LostRange, ...] = ()
    reached: tuple[int, ...] = ()
    """How far routing had got, where the query starts further back; empty where it does not."""

    def as_json(self, topic: str) -> str:
        """The value of the Kafka source's option `startingOffsets`."""
        return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(self.offsets)}})


def resume(newest_origins: Mapping[int, int], retained: Sequence[Retained]) -> StartOffsets:
    """Right after the newest origin of each partition; from the oldest event where nothing has been routed yet."""
    offsets, gaps = [], []
    for partition, kept in enumerate(retained):
        position = newest_origins.get(partition, -1) + 1
        if position < kept.first:
            gaps.append(LostRange(partition, position, kept.first - 1))
        offsets.append(min(max(position, kept.first), kept.end))
    return StartOffsets(tuple(offsets), tuple(gaps))


def reach_back(start: StartOffsets, newcomers: Iterable[Route], retained: Sequence[Retained]) -> StartOffsets:
    """The same start, moved back to where the routes that no earlier query knew want to begin, as far as that goes."""
    offsets = list(start.offsets)
    for route in newcomers:
        for partition, kept in enumerate(retained):
            wanted = route.start[partition] if partition < len(route.start) else kept.first
            offsets[partition] = min(offsets[partition], max(wanted, kept.first))
    moved = tuple(offsets) != start.offsets
    return StartOffsets(tuple(offsets), start.gaps, start.offsets if moved else ())


def starts_of_served(
    routes: Iterable[Route], newcomers: Iterable[Route], start: StartOffsets
) -> dict[str, tuple[int, ...]]:
    """Where routes start in a query that reaches back, by uid: those served before get nothing that they have had.

    What lies before the point that routing had reached has been routed for them already. Without this a query would
    repeat all of it, and new events would wait behind old ones.
    """
    new = {route.uid for route in newcomers}
    return {route.uid: _not_before(route.start, start.reached) for route in routes if route.uid not in new}


def _not_before(asked: Sequence[int], reached: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(wanted, got) for wanted, got in zip_longest(asked[: len(reached)], reached, fillvalue=0))


def out_of_reach(newcomers: Iterable[Route], retained: Sequence[Retained]) -> list[tuple[Route, LostRange]]:
    """The events that routes new to the router ask for and that were removed.

    A route without a start asks for whatever there is, so it misses nothing.
    """
    return [
        (route, LostRange(partition, wanted, kept.first - 1))
        for route in newcomers
        for partition, kept in enumerate(retained)
        if (wanted := _start_in(route, partition)) is not None and wanted < kept.first
    ]


def losses(gaps: Iterable[LostRange], routes: Iterable[Route]) -> list[tuple[Route, LostRange]]:
    """For each route the part of each gap that it was still to get. Before what was ever routed, that is nothing for a
    route without a start: it asks for whatever there is."""
    routes = list(routes)
    found = []
    for gap in gaps:
        for route in routes:
            begins = _start_in(route, gap.partition)
            if begins is None and gap.first:
                begins = 0
            if begins is not None and begins <= gap.last:
                found.append((route, LostRange(gap.partition, max(gap.first, begins), gap.last)))
    return found


def _start_in(route: Route, partition: int) -> int | None:
    """Where the route begins in a partition: in one that was added after it was published, with the first event. None
    where it has no start."""
    if not route.start:
        return None
    return route.start[partition] if partition < len(route.start) else 0
