"""Which routes are judged, and from when on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.engine.problem import Problem
from penstock.filters.parse import problems_of
from penstock.timestamps import rfc3339
from penstock.verification.published_routes import FilterChange, PublishedRoutes
from penstock.verification.reported import Reported

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
    """The routes of a namespace (None: of all), or those of these kinds and names there. Raises Problem where one is
    not there."""
    routes = [
        route for route in snapshot.routes.values() if route.replay is None and namespace in (None, route.namespace)
    ]
    for kind, name in names:
        if not any((route.kind, route.name) == (kind, name) for route in routes):
            where = "" if namespace is None else f" in the namespace {namespace}"
            raise Problem(
                f"No events are routed by a {kind} {name}{where}.",
                "penstock get triggers -A shows those that there are; one that is not Ready may have no route yet.",
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
