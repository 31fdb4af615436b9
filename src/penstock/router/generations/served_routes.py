"""Which routes the records of `penstock.matched` hold for. Pure; kept in `penstock.reports` for the next process.

The newest origin in `penstock.matched` says how far events were routed, but not for which routes. A route that a query
did without, because its record could not be read or its filter could not be planned, must get what it missed when it
is there again; so must one that a query was still catching up for when everything died. Both can happen over a restart,
and then nothing in `penstock.matched` tells it. So it is noted here:

- a route that a live generation serves is noted as served, after the generation is live;
- before a query starts without a route that was served, it is noted from where on the route is owed its events;
- a route that is not noted as served, or is owed something, reaches back in the next query.

Each note errs on the safe side when it is lost: the route then gets again what it had, and its cursor drops that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from penstock.contract.reports import Served
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot


@dataclass
class ServedRoutes:
    """What is noted."""

    noted: dict[str, Served] = field(default_factory=dict)
    """By uid of the route."""

    def newcomers(self, routes: Iterable[Route]) -> list[Route]:
        """Routes that need older events than what is routed next, each with the start from which it needs them."""
        return [found for route in routes if (found := self._reaching_back(route)) is not None]

    def left_out(self, snapshot: Snapshot, routes: Mapping[str, Route], begins: tuple[int, ...]) -> dict[str, Served]:
        """What has to be noted before a query that serves `routes` only begins there."""
        return {
            uid: Served(uid, noted.start, begins)
            for uid, noted in self.noted.items()
            if uid not in routes and noted.owed is None and not snapshot.has_ended(uid)
        }

    def live(self, snapshot: Snapshot, routes: Mapping[str, Route]) -> dict[str, Served | None]:
        """What changes when a generation that serves `routes` is live; taken in already."""
        changes: dict[str, Served | None] = {uid: None for uid in self.noted if snapshot.has_ended(uid)}
        for uid, route in routes.items():
            served = Served(uid, tuple(route.start))
            if self.noted.get(uid) != served:
                changes[uid] = served
        self.take(changes)
        return changes

    def take(self, changes: Mapping[str, Served | None]) -> None:
        """Takes changes in."""
        for uid, served in changes.items():
            if served is None:
                self.noted.pop(uid, None)
            else:
                self.noted[uid] = served

    def _reaching_back(self, route: Route) -> Route | None:
        noted = self.noted.get(route.uid)
        if noted is None or not _rises(noted.start, route.start):
            return route
        return None if noted.owed is None else route.since(_later(route.start, noted.owed))


def _later(one: Iterable[int], other: Iterable[int]) -> tuple[int, ...]:
    return tuple(max(pair) for pair in zip_longest(one, other, fillvalue=0))


def _rises(before: Iterable[int], now: Iterable[int]) -> bool:
    """Whether no partition starts earlier than before; an empty start is the very beginning."""
    return all(late >= early for early, late in zip_longest(before, now, fillvalue=0))
