"""The status of an EventType: whether what it refers to exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.metadata import ObjectIdentity

REFERENCE_EXISTS = "ReferenceExists"


@dataclass(frozen=True)
class EventTypeObservation:
    """What the controller has found out."""

    refers: bool
    found: bool = False
    unreadable: str | None = None
    """Why nobody can tell whether it exists."""


def status_of(obj: Obj, seen: EventTypeObservation, now: str) -> dict[str, Any]:
    """The EventType's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, [_finding(seen)], now),
    }


def _finding(seen: EventTypeObservation) -> ConditionFinding:
    if not seen.refers:
        return true(REFERENCE_EXISTS, "ReferenceNotSet", "spec.reference is not set")
    if seen.found:
        return true(REFERENCE_EXISTS)
    if seen.unreadable is not None:
        return unknown(REFERENCE_EXISTS, "ReferenceGetFailed", f"Failed to get reference: {seen.unreadable}")
    return false(REFERENCE_EXISTS, "ResourceDoesNotExist", "Resource in spec.reference does not exist")
