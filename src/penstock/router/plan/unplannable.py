"""Routes that the query has to do without, so that one of them does not hold up all the others.

Admission and `parse` keep filters that Spark cannot plan from getting here, as far as anybody knows of them. Should a
generation fail all the same, the routes whose filters are expressions of the query are tried without Kafka, in halves,
until those are found that fail. They are left out for as long as their filter stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.contract.routes import Route
from penstock.router.plan.route_index import index_routes

Probe = Callable[[Sequence[Route]], str | None]
"""Why these routes cannot be planned together; None where they can."""


class Unplannable:
    """What is known about routes that do not fit into a query."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._known: dict[str, tuple[object, str]] = {}

    def known(self, routes: Mapping[str, Route]) -> dict[str, str]:
        """Those among the routes that are known not to fit, and why. A route with another filter has its chance."""
        self._known = {
            uid: found for uid, found in self._known.items() if uid in routes and _filter(routes[uid]) == found[0]
        }
        return {uid: reason for uid, (_, reason) in self._known.items()}

    def examine(self, routes: Mapping[str, Route], live: Mapping[str, Route]) -> bool:
        """Looks for routes that made a generation fail; True if there are some that were not known before.

        Those of the live generation come first, so that what works already is not given up for what is new.
        """
        known = self.known(routes)
        suspects = [r for uid, r in routes.items() if uid not in known and index_routes([r]).predicates]
        if not suspects or self._probe([]) is not None:
            return False
        suspects.sort(key=lambda route: route.uid not in live)
        found = split_off_unplannable(suspects, self._probe)
        self._known.update({uid: (_filter(routes[uid]), reason) for uid, reason in found.items()})
        return bool(found)


def split_off_unplannable(routes: Sequence[Route], probe: Probe) -> dict[str, str]:
    """The routes that cannot be planned together with those before them, and why."""
    fit: list[Route] = []
    unfit: dict[str, str] = {}

    def take(group: Sequence[Route]) -> None:
        reason = probe([*fit, *group])
        if reason is None:
            fit.extend(group)
        elif len(group) == 1:
            unfit[group[0].uid] = reason
        else:
            half = len(group) // 2
            take(group[:half])
            take(group[half:])

    take(routes)
    return unfit


def _filter(route: Route) -> object:
    return route.attributes, route.filters
