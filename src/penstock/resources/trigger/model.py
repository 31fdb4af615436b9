"""A Trigger as the controllers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj, annotations_of
from penstock.resources.delivery.annotations import RouteOptions
from penstock.resources.metadata import ObjectIdentity

GROUP, KIND, PLURAL = "eventing.knative.dev", "Trigger", "triggers"
BROKER_LABEL = "eventing.knative.dev/broker"
DEPENDENCY_ANNOTATION = "knative.dev/dependency"
INJECTION_ANNOTATION = "eventing.knative.dev/injection"


@dataclass(frozen=True)
class Trigger:
    """What is asked for."""

    identity: ObjectIdentity
    broker: str
    broker_namespace: str
    attributes: dict[str, str]
    filters: list[dict[str, Any]]
    subscriber: dict[str, Any]
    delivery: dict[str, Any] | None
    dependency: str | None
    options: RouteOptions

    @classmethod
    def read(cls, obj: Obj) -> Trigger:
        """The Trigger behind a stored object."""
        spec = obj.get("spec") or {}
        identity = ObjectIdentity.read(obj)
        reference = spec.get("brokerRef") or {}
        return cls(
            identity,
            str(spec.get("broker") or reference.get("name") or ""),
            str(reference.get("namespace") or identity.namespace),
            dict((spec.get("filter") or {}).get("attributes") or {}),
            list(spec.get("filters") or []),
            dict(spec.get("subscriber") or {}),
            spec.get("delivery"),
            annotations_of(obj).get(DEPENDENCY_ANNOTATION),
            RouteOptions.read(obj),
        )
