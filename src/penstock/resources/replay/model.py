"""A Replay as the controllers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.destinations.kreference import KReference
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.moments import moment_of
from penstock.timestamps import parse_rfc3339

GROUP, KIND, PLURAL = "penstock.dev", "Replay", "replays"

TARGETS = {"Trigger": "eventing.knative.dev/v1", "Subscription": "messaging.knative.dev/v1"}
SOURCES = {
    "Broker": "eventing.knative.dev/v1",
    "Channel": "messaging.knative.dev/v1",
    "InMemoryChannel": "messaging.knative.dev/v1",
}


@dataclass(frozen=True)
class ReplaySpec:
    """What is asked for."""

    identity: ObjectIdentity
    target: KReference | None
    source: KReference | None
    sink: dict[str, Any]
    delivery: dict[str, Any]
    since: float
    """Unix time; 0: the earliest there is."""
    until: float | None
    """Unix time; None: when it begins."""
    ids: tuple[str, ...]
    dead_letters: bool
    reason: str
    filters: list[dict[str, Any]]
    rate: float | None
    dry_run: bool

    @classmethod
    def read(cls, obj: Obj) -> ReplaySpec:
        """The Replay behind a stored object."""
        spec, identity = obj.get("spec") or {}, ObjectIdentity.read(obj)
        made = parse_rfc3339(str(obj["metadata"]["creationTimestamp"])).timestamp()
        rate = spec.get("rate")
        return cls(
            identity,
            _reference(spec.get("target"), identity.namespace),
            _reference(spec.get("source"), identity.namespace),
            spec.get("sink") or {},
            spec.get("delivery") or {},
            moment_of(str(spec.get("from") or "earliest"), made) or 0.0,
            moment_of(str(spec["to"]), made) if spec.get("to") else None,
            tuple(spec.get("eventIds") or ()),
            bool(spec.get("deadLetters")),
            str(spec.get("reason") or ""),
            spec.get("filters") or [],
            float(rate) if rate else None,
            bool(spec.get("dryRun")),
        )


def _reference(ref: dict[str, Any] | None, namespace: str) -> KReference | None:
    return KReference.read(ref, namespace) if ref else None
