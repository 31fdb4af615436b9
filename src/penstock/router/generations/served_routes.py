"""Which routes the records of `penstock.matched` hold for. Pure; kept in `penstock.reports` for the next process.

The newest origin in `penstock.matched` shows how far events were routed, but not for which routes. A route that a query
left out, because its record could not be read or its filter could not be planned, must get what it missed when it is
available again; so must one that a query was still catching up for when everything crashed. Both can happen across a
restart, and then `penstock.matched` does not show it. So it is recorded here:

- a route that a live generation serves is recorded as served, after the generation is live;
- before a query starts without a route that was served, it is recorded from where on the route is owed its events;
- a route that is not recorded as served, or is owed something, reaches back in the next query.

Losing such a record is safe: the route then gets again what it had, and its cursor drops that. Only what is owed is
different; but it is recorded before the generation that left out the route, so if that one's fence shows that records
were lost, all routes are owed the events since then. And if `penstock.matched` loses its end, with what was written
there for routes that reached back, those are owed it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec

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
        """What has to be noted before a query that serves `routes` only begins there. That may be earlier than what a
        route is owed already, where `penstock.matched` has lost its end."""
        missing = [one for uid, one in self.noted.items() if uid not in routes and not snapshot.has_ended(uid)]
        return {one.route: owed for one in missing if (owed := _owing(one, begins)) != one}

    def owe_all(self, since: tuple[int, ...]) -> dict[str, Served]:
        """What has to be noted where notes from there on are lost; taken in already."""
        owed = {uid: _owing(noted, since) for uid, noted in self.noted.items()}
        self.take(owed)
        return owed

    def owe_cut_off(self, ends: tuple[int, ...]) -> dict[str, Served]:
        """What has to be noted where `penstock.matched` ends so early that some of what routes reached back for is
        gone; taken in already."""
        owed = {
            uid: msgspec.structs.replace(_owing(noted, noted.since), since=(), until=())
            for uid, noted in self.noted.items()
            if any(end < until for end, until in zip(ends, noted.until, strict=False))
        }
        self.take(owed)
        return owed

    def live(
        self,
        snapshot: Snapshot,
        routes: Mapping[str, Route],
        since: Mapping[str, tuple[int, ...]],
        until: tuple[int, ...],
    ) -> dict[str, Served | None]:
        """What changes when a generation that serves `routes` is live; taken in already. For some it has read the
        events again `since` then, which was done when `penstock.matched` ended at `until`."""
        changes: dict[str, Served | None] = {uid: None for uid in self.noted if snapshot.has_ended(uid)}
        for uid, route in routes.items():
            start, noted = tuple(route.start), self.noted.get(uid)
            if noted is None or noted.start != start or noted.owed is not None:
                changes[uid] = Served(uid, start, None, since[uid], until) if uid in since else Served(uid, start)
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


def _owing(noted: Served, since: tuple[int, ...]) -> Served:
    """The same, but owed what came since then, or more."""
    if noted.owed is not None:
        since = tuple(min(pair) for pair in zip_longest(noted.owed, since, fillvalue=0))
    return msgspec.structs.replace(noted, owed=since)


def _rises(before: Iterable[int], now: Iterable[int]) -> bool:
    """Whether no partition starts earlier than before; an empty start is the very beginning."""
    return all(late >= early for early, late in zip_longest(before, now, fillvalue=0))
