"""A Broker as the controllers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj, annotations_of
from penstock.resources.metadata import ObjectIdentity

GROUP, KIND, PLURAL = "eventing.knative.dev", "Broker", "brokers"
CLASS_ANNOTATION = "eventing.knative.dev/broker.class"


@dataclass(frozen=True)
class Broker:
    """What is asked for."""

    identity: ObjectIdentity
    broker_class: str
    delivery: dict[str, Any] | None
    config: dict[str, Any] | None = None
    """The reference to its configuration."""

    @classmethod
    def read(cls, obj: Obj) -> Broker:
        """The Broker behind a stored object."""
        return cls(
            ObjectIdentity.read(obj),
            annotations_of(obj).get(CLASS_ANNOTATION, ""),
            (obj.get("spec") or {}).get("delivery"),
            (obj.get("spec") or {}).get("config"),
        )
