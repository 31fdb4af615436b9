"""The routes in force with their filters, what the data plane reports about them, and which of them are verified from
when on. Pure: records of `penstock.routes` and `penstock.reports` in.

The topic is compacted, so of former filters at most the newest is certain to be there. But from the first record that
is there of a key, all later ones are: compaction keeps the newest record below some offset, and all above it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.contract import reports
from penstock.contract.records import Unreadable
from penstock.contract.reports import Ack, Loss, Served
from penstock.contract.routes import VERSION_KEY, Route, Version, decode, route_of_key
from penstock.contract.snapshot import Snapshot, SnapshotBuilder
from penstock.filters.parse import problems_of
from penstock.kafka.ranges import LogRecord
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339


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
        """uids of Replays of dead letters, deleted ones included, with the route of each."""
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


EVERYWHERE = 2**62
"""An offset above all others."""


class Reported:
    """What `penstock.reports` holds."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self._served: dict[str, Served] = {}
        self._acks: list[tuple[int, int]] = []
        """Version and time, where the router's version rose."""

    def take(self, records: Collection[LogRecord]) -> None:
        """Takes records in the order of the topic."""
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            kind, _, uid = key.partition("/")
            if kind == "served":
                self._served.pop(uid, None)
            try:
                report = None if record.value is None else reports.decode(key, record.value)
            except Unreadable:
                continue
            match report:
                case Served():
                    self._served[report.route] = report
                case Loss():
                    self.losses.append(report)
                case Ack("router") if not self._acks or report.version > self._acks[-1][0]:
                    self._acks.append((report.version, record.at_ms))

    def served_before(self, uid: str, partition: int) -> int:
        """The router serves the route before this offset of the partition; 0: not at all."""
        served = self._served.get(uid)
        if served is None:
            return 0
        if served.owed is None:
            return EVERYWHERE
        return served.owed[partition] if partition < len(served.owed) else 0

    def acknowledged_ms(self, version: int | None) -> int | None:
        """Since when the router certainly acts by a version, Unix milliseconds; None: it does not, or never said so."""
        if version is None:
            return None
        return next((at_ms for found, at_ms in self._acks if found >= version), None)


CLOCKS = timedelta(seconds=1)
"""By so much clocks may differ, that of who accepts an event from that of who acts by a filter."""

InForce = Callable[[Route], datetime | None]
"""Since when a Trigger is in force as it is now, as its status says; None where it does not say that it is."""


@dataclass(frozen=True)
class JudgedRoute:
    """A route, and from when on it is judged."""

    route: Route
    since: datetime | None = None
    """None: from where it begins."""
    remark: str = ""
    """Why not, for people."""


def chosen(snapshot: Snapshot, names: Collection[tuple[str, str]], namespace: str | None) -> list[Route]:
    """The routes of a namespace (None: of all), or those of these kinds and names there. Raises UserError where one is
    not there."""
    routes = [
        route for route in snapshot.routes.values() if route.replay is None and namespace in (None, route.namespace)
    ]
    for kind, name in names:
        if not any((route.kind, route.name) == (kind, name) for route in routes):
            where = "" if namespace is None else f" in the namespace {namespace}"
            raise UserError(
                f"There is no route of {kind} {name}{where}.",
                "List them: penstock get triggers -A; one that is not Ready may not have a route yet.",
                exit_code=2,
            )
    found = [route for route in routes if not names or (route.kind, route.name) in names]
    return sorted(found, key=lambda route: (route.namespace, route.kind != "Trigger", route.name))


def judged(
    routes: Iterable[Route], published: PublishedRoutes, reported: Reported, in_force: InForce, since: datetime
) -> tuple[list[JudgedRoute], list[str]]:
    """The routes that can be judged from `since` on or later, and what is to be said of the others."""
    found, remarks = [], []
    for route in routes:
        if problems := problems_of(route.attributes, route.filters):
            remarks.append(f"{_label(route)} is not judged: its filter cannot be evaluated ({problems[0]})")
            continue
        change = published.changes.get(route.uid)
        begin = None if change is None else _in_force(route, change, reported, in_force)
        if change is None or (begin is not None and begin <= since):
            found.append(JudgedRoute(route))
        elif begin is None:
            remarks.append(f"{_label(route)} is not judged: its filter was changed, and is not in force yet")
        else:
            remark = f"judged from {rfc3339(begin)} on: before that it may have had another filter"
            found.append(JudgedRoute(route, begin, remark))
    return found, remarks


def _in_force(route: Route, change: FilterChange, reported: Reported, in_force: InForce) -> datetime | None:
    """Since when the filter is certainly in force: each of what says so may say it late, and none too early."""
    changed = datetime.fromtimestamp(change.at_ms / 1000, UTC)
    acknowledged = reported.acknowledged_ms(change.version)
    moments = [in_force(route), None if acknowledged is None else datetime.fromtimestamp(acknowledged / 1000, UTC)]
    # What is older speaks of the filter before.
    known = [moment for moment in moments if moment is not None and moment + CLOCKS > changed]
    return min(known) + CLOCKS if known else None


def _label(route: Route) -> str:
    return f"{route.kind.lower()} {route.namespace}/{route.name}"
