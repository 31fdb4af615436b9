"""How many replicas topics get, by what can be known of the cluster: also of its brokers that are away. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kafka.admin import Brokers
from penstock.settings import Settings

ENOUGH = 3
"""More make a write slower and hardly safer: with three, one may be away and another may fail."""


@dataclass(frozen=True)
class Replication:
    """How many replicas are wanted, and why."""

    replicas: int
    reason: str


def wanted(settings: Settings, brokers: Brokers) -> Replication:
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
