"""The status of a ContainerSource: that of its two parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, unknown
from penstock.resources.metadata import ObjectIdentity

SINK_BINDING_READY = "SinkBindingReady"
RECEIVE_ADAPTER_READY = "ReceiveAdapterReady"
_FROM_BINDING = ("sinkUri", "sinkCACerts", "sinkAudience", "auth")


@dataclass(frozen=True)
class ContainerObservation:
    """What the controller has found out."""

    deployment_name: str
    binding: Mapping[str, Any]
    """The SinkBinding as stored."""
    deployment: Mapping[str, Any] | None
    """The Deployment as stored; None: there is none yet."""
    failure: str | None = None
    """Why a part cannot be had."""


def status_of(obj: Obj, seen: ContainerObservation, now: str) -> dict[str, Any]:
    """The ContainerSource's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    binding = seen.binding.get("status") or {}
    findings = [_copied(SINK_BINDING_READY, find(binding.get("conditions"), READY)), _adapter(seen)]
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **{name: binding[name] for name in _FROM_BINDING if name in binding},
    }


def _adapter(seen: ContainerObservation) -> ConditionFinding:
    if seen.failure is not None:
        return false(RECEIVE_ADAPTER_READY, "DeploymentFailed", seen.failure)
    conditions = ((seen.deployment or {}).get("status") or {}).get("conditions")
    available = find(conditions, "Available")
    if available is None:
        message = f"The Deployment '{seen.deployment_name}' is unavailable."
        return unknown(RECEIVE_ADAPTER_READY, "DeploymentUnavailable", message)
    return _copied(RECEIVE_ADAPTER_READY, available)


def _copied(kind: str, condition: Mapping[str, Any] | None) -> ConditionFinding:
    if condition is None:
        return unknown(kind)
    if condition["status"] == "True":
        return ConditionFinding(kind, "True")
    state = false if condition["status"] == "False" else unknown
    return state(kind, condition.get("reason") or "", condition.get("message") or "")
