"""The routes in force, and since when each has the filter that it has. Pure: records of `penstock.routes` in.

The topic is compacted, so of former filters at most the newest is certain to be there. But from the first record that
is there of a key, all later ones are: compaction keeps the newest record below some offset, and all above it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.contract.routes import VERSION_KEY, Route, Version, decode, route_of_key
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.contract.unreadable import Unreadable
from penstock.kafka.ranges import LogRecord


@dataclass(frozen=True)
class FilterChange:
    """The route may have had another filter before."""

    at_ms: int
    """When this one was published, Unix milliseconds."""
    version: int | None
    """The version of the routes that it was published with; None where that is not there any more."""


class PublishedRoutes:
    """What the topic holds."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.changes: dict[str, FilterChange] = {}
        """By uid of the route; those that are not here have had one filter only."""
        self.redrives: dict[str, str] = {}
        """uids of Replays, also of former ones, and the route whose events each delivers that were given up."""
        self._builder = SnapshotBuilder()
        self._newest: dict[str, Route] = {}
        self._open: list[str] = []
        """Routes that were changed since the last version."""

    def take(self, records: Collection[LogRecord]) -> None:
        """Takes records in the order of the topic."""
        for record in records:
            if record.key is None:
                continue
            key = record.key.decode("utf-8", "replace")
            try:
                snapshot = self._builder.apply(key, record.value)
                self._take(key, record)
            except Unreadable:
                continue  # as everywhere: what the key said before stays in force
            self.snapshot = snapshot or self.snapshot

    def _take(self, key: str, record: LogRecord) -> None:
        if key == VERSION_KEY and record.value is not None:
            completed = decode(key, record.value)
            if isinstance(completed, Version):
                for changed in self._open:
                    if (change := self.changes.get(changed)) is not None:
                        self.changes[changed] = FilterChange(change.at_ms, completed.version)
            self._open = []
        elif (uid := route_of_key(key)) is not None:
            route = None if record.value is None else decode(key, record.value)
            if isinstance(route, Route):
                self._note(route, record.at_ms)
            else:
                self._newest.pop(uid, None)
                self.changes.pop(uid, None)

    def _note(self, route: Route, at_ms: int) -> None:
        before = self._newest.get(route.uid)
        self._newest[route.uid] = route
        if route.replay is not None and route.replay.given_up_by is not None:
            self.redrives[route.uid] = route.replay.given_up_by
        # The first one there is may have followed others, unless its object was never changed, or has no filter.
        unknown = before is None and route.kind == "Trigger" and route.generation > 1
        if unknown or (before is not None and _filter_of(before) != _filter_of(route)):
            self.changes[route.uid] = FilterChange(at_ms, None)
            self._open.append(route.uid)


def _filter_of(route: Route) -> object:
    return route.target, route.attributes, route.filters
