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
from penstock.kafka.admin import Brokers
from penstock.settings import Settings


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


# How many replicas topics get, by what can be known of the cluster: also of its brokers that are away. Pure.

ENOUGH = 3
"""More make a write slower and hardly safer: with three, one may be away and another may fail."""


@dataclass(frozen=True)
class Replication:
    """How many replicas are wanted, and why."""

    replicas: int
    reason: str


def wanted_replication(settings: Settings, brokers: Brokers) -> Replication:
    """What a new topic should have.

    Brokers that are away do not answer, but they leave traces: replicas of topics that were made when they were there,
    and the number of replicas that the brokers themselves are configured to give to internal topics.
    """
    if settings.replication is not None:
        return Replication(settings.replication, "the setting replication says so")
    if settings.kafka is None:
        return Replication(1, "the embedded Kafka is a single node")
    known = len(brokers.alive | brokers.named)
    signs = [
        Replication(known, f"this Kafka has {known} brokers"),
        Replication(brokers.most_replicas, f"other topics of this Kafka have {brokers.most_replicas}"),
        Replication(
            brokers.configured_replicas,
            f"the brokers are configured for {brokers.configured_replicas} (default.replication.factor or "
            "offsets.topic.replication.factor)",
        ),
    ]
    best = max(signs, key=lambda sign: sign.replicas)
    return Replication(min(ENOUGH, best.replicas), best.reason)


def too_few(replication: Replication, brokers: Brokers) -> str | None:
    """Why topics cannot be made now; None if they can."""
    alive = len(brokers.alive)
    if replication.replicas <= alive:
        return None
    return (
        f"Topics are to have {replication.replicas} replicas, because {replication.reason}, but only {alive} "
        f"{'broker answers' if alive == 1 else 'brokers answer'}."
    )


def min_insync(replicas: int) -> int:
    """How many replicas must have a record before it counts as stored."""
    return 2 if replicas >= ENOUGH else 1
