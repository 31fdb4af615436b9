"""Names, identities, owners and labels of objects, and the names in metadata that components of penstock share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 253
NODE_NAME = "penstock"
"""The one Node of the embedded API: the `spec.nodeName` of its Pods."""
POD_PORTS = "penstock.dev/pod-ports"
"""Annotation with the actual ports of a Pod by those in its spec, `8080=41234,…`; written by the node."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_object_name(text: str) -> bool:
    """Whether an object can have this name: it must be a DNS subdomain."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class ObjectIdentity:
    """Which object, and which generation of its spec."""

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


def is_subset(wanted: object, held: object) -> bool:
    """Whether an object has all wanted fields; others, such as defaults of the server, are ignored. Lists are compared
    item by item."""
    if isinstance(wanted, dict) and isinstance(held, dict):
        return all(name in held and is_subset(value, held[name]) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(held, list):
        return len(wanted) == len(held) and all(map(is_subset, wanted, held))
    return held == wanted


_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def selector_matches(selector: Mapping[str, Any], labels: Mapping[str, Any] | None) -> bool:
    """Whether a label selector selects objects with these labels; an empty one selects all."""
    labels = labels or {}
    plain = (selector.get("matchLabels") or {}).items()
    return all(labels.get(name) == value for name, value in plain) and all(
        _holds(term, labels) for term in selector.get("matchExpressions") or ()
    )


def selector_problem(selector: Mapping[str, Any]) -> str | None:
    """Why a label selector is invalid, in the words of Kubernetes; None where it is valid."""
    for term in selector.get("matchExpressions") or ():
        operator, values = term.get("operator"), term.get("values") or []
        if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            return f'"{operator or ""}" is not a valid label selector operator'
        if operator in _WITH_VALUES and not values:
            return "for 'in', 'notin' operators, values set can't be empty"
        if operator in _WITHOUT_VALUES and values:
            return "values set must be empty for exists and does not exist"
    return None


def _holds(term: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    value, values = labels.get(str(term.get("key"))), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
