"""The part of an object's metadata that names it, and names that components of penstock share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 253
NODE_NAME = "penstock"
"""The one Node of the embedded API: what Pods have as their `spec.nodeName`."""
POD_PORTS = "penstock.dev/pod-ports"
"""Annotation of Pods whose ports are others than their containers say, `8080=41234,…`; written by the node."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_object_name(text: str) -> bool:
    """Whether an object can have this name: that of a DNS subdomain."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class ObjectIdentity:
    """Which object, and which state of its spec."""

    namespace: str
    name: str
    uid: str
    generation: int = 0

    @classmethod
    def read(cls, obj: dict[str, Any]) -> ObjectIdentity:
        """The identity of a stored object."""
        metadata = obj.get("metadata") or {}
        return cls(
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
            str(metadata.get("uid") or ""),
            int(metadata.get("generation") or 0),
        )


def controller_reference(obj: dict[str, Any]) -> dict[str, Any]:
    """The entry of `ownerReferences` that makes the object the owner and controller of another."""
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: dict[str, Any]) -> dict[str, Any] | None:
    """The reference to the object's controller; None: it has none."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)
