"""The topics of penstock, their names and configuration. The engine creates them.

The code uses the names below. In Kafka they begin with the setting `topic_prefix` instead of `penstock`, so that two
installations can share a Kafka; only Kafka clients need that name, from `name_in_kafka`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.settings import DEFAULT_TOPIC_PREFIX

EVENTS = "penstock.events"
MATCHED = "penstock.matched"
ROUTES = "penstock.routes"
CURSORS = "penstock.cursors"
ATTEMPTS = "penstock.attempts"
REPORTS = "penstock.reports"
CLAIMS = "penstock.claims"
UNREADABLE = "penstock.unreadable"
"""Records of `penstock.events` that are neither events nor markers, unchanged; they are not delivered."""


@dataclass(frozen=True)
class Topic:
    """How a topic is created."""

    name: str
    cleanup: Literal["delete", "compact"]
    per_partition: bool
    """Whether it has as many partitions as `penstock.events`; otherwise it has one."""
    share: float = 0.0
    """Part of the retained size that this topic may take, for topics cleaned by deletion."""
    flushed: bool = True
    """Whether a record is on disk before it is acknowledged, on the embedded Kafka."""


TOPICS = (
    Topic(EVENTS, "delete", per_partition=True, share=0.45),
    Topic(MATCHED, "delete", per_partition=True, share=0.44, flushed=False),
    Topic(ATTEMPTS, "delete", per_partition=True, share=0.09, flushed=False),
    Topic(UNREADABLE, "delete", per_partition=True, share=0.02, flushed=False),
    Topic(CURSORS, "compact", per_partition=True, flushed=False),
    Topic(ROUTES, "compact", per_partition=False),
    Topic(REPORTS, "compact", per_partition=False),
    Topic(CLAIMS, "compact", per_partition=False),
)


def name_in_kafka(topic: str, prefix: str) -> str:
    """The name that one of the topics above has in Kafka, in the installation with this prefix."""
    return prefix + topic.removeprefix(DEFAULT_TOPIC_PREFIX)
