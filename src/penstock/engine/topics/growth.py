"""When topics may get more partitions without any event overtaking another of its key. Pure.

With more partitions most keys have another one. Events of a key that lie in its old partition and those that come to
the new one would be read side by side, and a route with `penstock.dev/ordering: key` could get a later one first. So
where there is such a route, nothing may be under way when the partitions are made: no ingress takes events, everything
stored has been routed, and every route has settled what it was given. The last counts for all routes, as a delivery
under way may put a reply into the log. Then all that is stored later is later for everybody. Routes without an order
have nothing to wait for: where there are only such routes, partitions are made at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.contract.routes import Route


@dataclass(frozen=True)
class PartitionStanding:
    """How far one partition has got."""

    stored: int
    """Where `penstock.events` ends."""
    routed: int
    """The first event that is not known to have been routed."""
    matched: int
    """Where `penstock.matched` ends."""
    taken: int
    """The first record of it that the dispatcher has not taken."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """By uid of a route, what it was given and has not settled."""


def keeps_order(routes: Iterable[Route]) -> bool:
    """Whether any route asks for the order of its events."""
    return any(route.ordering == "key" for route in routes)


def obstacles(
    routes: Mapping[str, Route], ingresses: Sequence[str], partitions: Sequence[PartitionStanding]
) -> list[str]:
    """What has to end before partitions may be made, each in a line; empty when they may."""
    return list(_obstacles(routes, ingresses, partitions)) if keeps_order(routes.values()) else []


def _obstacles(
    routes: Mapping[str, Route], ingresses: Sequence[str], partitions: Sequence[PartitionStanding]
) -> Iterator[str]:
    for name in ingresses:
        yield f"the ingress {name} takes events: stop it"
    unrouted = sum(max(0, one.stored - one.routed) for one in partitions)
    if unrouted:
        yield f"{unrouted} events are not known to have been routed: let the pipeline run for a few seconds more"
    untaken = sum(max(0, one.matched - one.taken) for one in partitions)
    if untaken:
        yield f"{untaken} matched events have not been taken for delivery: let the pipeline run"
    waiting: Counter[str] = Counter()
    for one in partitions:
        waiting.update(one.waiting)
    for uid, count in sorted(waiting.items()):
        if count and uid in routes:
            route = routes[uid]
            yield f"{route.kind} {route.namespace}/{route.name} has {count} events to deliver: wait, or delete it"
