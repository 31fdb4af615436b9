"""A Channel as the controllers see it, and what every kind of channel has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.metadata import ObjectIdentity

GROUP, KIND, PLURAL = "messaging.knative.dev", "Channel", "channels"
SUBSCRIBABLE_ANNOTATION = "messaging.knative.dev/subscribable"
SUBSCRIBABLE_VERSION = "v1"


@dataclass(frozen=True)
class Channel:
    """What is asked for."""

    identity: ObjectIdentity
    template: dict[str, Any]
    delivery: dict[str, Any] | None
    subscribers: list[dict[str, Any]]

    @classmethod
    def read(cls, obj: Obj) -> Channel:
        """The channel behind a stored object, whatever its kind."""
        spec = obj.get("spec") or {}
        return cls(
            ObjectIdentity.read(obj),
            dict(spec.get("channelTemplate") or {}),
            spec.get("delivery"),
            list(spec.get("subscribers") or []),
        )
