"""The status of a JobSink."""

from __future__ import annotations

from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, true
from penstock.resources.destinations.resolution import ResolvedAddress, addresses
from penstock.resources.eventpolicy.access import TargetAccess
from penstock.resources.jobsink.model import selector_of
from penstock.resources.metadata import ObjectIdentity


def status_of(obj: Obj, known: tuple[ResolvedAddress, ...], access: TargetAccess, now: str) -> dict[str, Any]:
    """The JobSink's status: it takes events as soon as it is there, unless its EventPolicies are not ready."""
    identity = ObjectIdentity.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": identity.generation,
        "conditions": conclude(previous, [true("Addressable"), access.finding()], now),
        **addresses(*known),
        **access.fields(),
        "job": {"selector": selector_of(identity.name)},
    }
