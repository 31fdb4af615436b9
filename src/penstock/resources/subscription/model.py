"""A Subscription as the controllers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.delivery.annotations import RouteOptions
from penstock.resources.destinations.kreference import KReference
from penstock.resources.metadata import ObjectIdentity

GROUP, KIND, PLURAL = "messaging.knative.dev", "Subscription", "subscriptions"


@dataclass(frozen=True)
class Subscription:
    """What is asked for."""

    identity: ObjectIdentity
    channel: KReference
    subscriber: dict[str, Any] | None
    reply: dict[str, Any] | None
    delivery: dict[str, Any] | None
    options: RouteOptions

    @classmethod
    def read(cls, obj: Obj) -> Subscription:
        """The Subscription behind a stored object."""
        spec = obj.get("spec") or {}
        identity = ObjectIdentity.read(obj)
        return cls(
            identity,
            KReference.read(spec.get("channel") or {}, identity.namespace),
            spec.get("subscriber") or None,
            spec.get("reply") or None,
            spec.get("delivery"),
            RouteOptions.read(obj),
        )
