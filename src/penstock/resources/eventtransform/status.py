"""The status of an EventTransform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.destinations.resolution import Resolution, ResolvedAddress, Unresolved, addresses
from penstock.resources.eventpolicy.access import OPEN
from penstock.resources.eventtransform.model import EventTransform

DEPLOYMENT_READY = "JsonataDeploymentReady"
SINK_BINDING_READY = "JsonataSinkBindingReady"
TRANSFORMATION_READY = "TransformationReady"


@dataclass(frozen=True)
class EventTransformObservation:
    """What the controller has found out."""

    deployment: Mapping[str, Any] | None
    """As stored; None: there is none."""
    sink: Resolution
    known: tuple[ResolvedAddress, ...]
    """Where it takes events once it runs, the address to prefer first."""
    failure: str | None = None
    """Why a part cannot be had."""


def status_of(obj: Obj, seen: EventTransformObservation, now: str) -> dict[str, Any]:
    """The EventTransform's status."""
    wanted = EventTransform.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    running, bound = _deployment_finding(seen), _sink_finding(seen.sink)
    ready = _transformation_finding(running, bound)
    takes = ready.status == "True"
    waiting = false("Addressable", "WaitingForServiceEndpoints", "URL is empty")
    addressable = true("Addressable") if takes else waiting
    status: dict[str, Any] = {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude(previous, [running, bound, ready, addressable, OPEN.finding()], now),
        "jsonata": {"deployment": dict((seen.deployment or {}).get("status") or {})},
    }
    if takes:
        told = addresses(*seen.known)
        # Who knows only one address gets the first, as in Knative, where other Addressables give the last.
        status |= told | {"address": told["addresses"][0]}
    if isinstance(seen.sink, ResolvedAddress):
        status |= seen.sink.fields("sink")
    return status


def _deployment_finding(seen: EventTransformObservation) -> ConditionFinding:
    if seen.failure is not None:
        return false(DEPLOYMENT_READY, "JsonataDeploymentUnavailable", seen.failure)
    if seen.deployment is None:
        return unknown(DEPLOYMENT_READY)
    status = seen.deployment.get("status") or {}
    wanted, available = int(status.get("replicas") or 0), int(status.get("availableReplicas") or 0)
    if wanted > 0 and wanted == available and _is_current(seen.deployment):
        return true(DEPLOYMENT_READY)
    message = f"Expected replicas: {wanted}, available: {available}"
    return false(DEPLOYMENT_READY, "JsonataDeploymentUnavailable", message)


def _is_current(deployment: Mapping[str, Any]) -> bool:
    """Whether its Pods are those of the expression as it is now."""
    status = deployment.get("status") or {}
    observed = status.get("observedGeneration") in (None, (deployment.get("metadata") or {}).get("generation"))
    return observed and status.get("updatedReplicas", status.get("replicas")) == status.get("replicas")


def _sink_finding(sink: Resolution) -> ConditionFinding:
    if isinstance(sink, Unresolved):
        return false(SINK_BINDING_READY, "SinkNotFound", sink.message)
    return true(SINK_BINDING_READY)


def _transformation_finding(running: ConditionFinding, bound: ConditionFinding) -> ConditionFinding:
    decisive = bound if running.status == "True" or bound.status == "False" else running
    return ConditionFinding(TRANSFORMATION_READY, decisive.status, decisive.reason, decisive.message)
