"""When partitions can be added without reordering events of a key, and how many replicas topics get. Pure.

With more partitions most keys move to another one. Events of a key in the old and in the new partition are read
concurrently, so a route with `penstock.dev/ordering: key` could get a later one first. If there is such a route,
nothing may be in progress when partitions are added: no ingress runs, all stored events are routed, and every route has
finished its events. The last applies to all routes, because a delivery may still store a reply. If no route has an
order, partitions can be added at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.contract.routes import Route
from penstock.kafka.admin import Brokers
from penstock.settings import Settings


@dataclass(frozen=True)
class PartitionProgress:
    """The progress of one partition."""

    stored: int
    """End offset of `penstock.events`."""
    routed: int
    """Offset of the first event that may not be routed yet."""
    matched: int
    """End offset of `penstock.matched`."""
    taken: int
    """Offset of its first record that the dispatcher has not read."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Number of unfinished events by uid of the route."""


def keeps_order(routes: Iterable[Route]) -> bool:
    """Whether any route has ordered delivery."""
    return any(route.ordering == "key" for route in routes)


def obstacles(
    routes: Mapping[str, Route], ingresses: Sequence[str], partitions: Sequence[PartitionProgress]
) -> list[str]:
    """What prevents the addition of partitions, one line each; empty if nothing does."""
    return list(_obstacles(routes, ingresses, partitions)) if keeps_order(routes.values()) else []


def _obstacles(
    routes: Mapping[str, Route], ingresses: Sequence[str], partitions: Sequence[PartitionProgress]
) -> Iterator[str]:
    for name in ingresses:
        yield f"the ingress {name} is running: stop it"
    unrouted = sum(max(0, one.stored - one.routed) for one in partitions)
    if unrouted:
        yield f"{unrouted} events may not be routed yet: let the pipeline run for a few seconds"
    untaken = sum(max(0, one.matched - one.taken) for one in partitions)
    if untaken:
        yield f"{untaken} matched events have not been read by the dispatcher: let the pipeline run"
    waiting: Counter[str] = Counter()
    for one in partitions:
        waiting.update(one.waiting)
    for uid, count in sorted(waiting.items()):
        if count and uid in routes:
            route = routes[uid]
            yield f"{route.kind} {route.namespace}/{route.name} has {count} events to deliver: wait, or delete it"


ENOUGH = 3
"""More replicas make writes slower and hardly safer: with three, one broker can be down and another can fail."""


@dataclass(frozen=True)
class Replication:
    """The wanted number of replicas, and the reason."""

    replicas: int
    reason: str


def wanted_replication(settings: Settings, brokers: Brokers) -> Replication:
    """The replication of new topics.

    Brokers that are down can be inferred from the replicas of existing topics, and from the replication that the
    brokers are configured to use for internal topics."""
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
    """Why topics cannot be created now, or None."""
    alive = len(brokers.alive)
    if replication.replicas <= alive:
        return None
    return (
        f"Topics need {replication.replicas} replicas, because {replication.reason}, but only {alive} "
        f"{'broker is' if alive == 1 else 'brokers are'} reachable."
    )


def min_insync(replicas: int) -> int:
    """The value of min.insync.replicas."""
    return 2 if replicas >= ENOUGH else 1
