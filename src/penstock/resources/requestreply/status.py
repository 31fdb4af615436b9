"""The status of a RequestReply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, is_ready, true, unknown
from penstock.resources.eventpolicy.access import EVENT_POLICIES_READY
from penstock.resources.metadata import ObjectIdentity

BROKER_ADDRESS = "knative.dev/brokerAddress"


@dataclass(frozen=True)
class RequestReplyObservation:
    """What the controller has found out."""

    url: str
    broker: Mapping[str, Any] | None
    """As stored; None: there is none."""
    broker_failure: str
    """Why there is none."""
    trigger: Mapping[str, Any] | None
    trigger_failure: str | None = None


def status_of(obj: Obj, seen: RequestReplyObservation, now: str) -> dict[str, Any]:
    """The RequestReply's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    trigger_ready = seen.trigger is not None and is_ready(seen.trigger)
    policies = true(EVENT_POLICIES_READY, "NotImplemented", "Event policies not implemented for RequestReply yet")
    findings = [_trigger_finding(seen, ready=trigger_ready), true("Addressable"), policies, _broker_finding(seen)]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        "address": {"name": "http", "url": seen.url},
        "desiredReplicas": 1,
        "readyReplicas": int(trigger_ready),
    }
    address = (((seen.broker or {}).get("status") or {}).get("address") or {}).get("url")
    if address:
        status["annotations"] = {BROKER_ADDRESS: address}
    return status


def _trigger_finding(seen: RequestReplyObservation, *, ready: bool) -> ConditionFinding:
    if seen.trigger_failure is not None:
        message = f"Encountered errors reconciling triggers: {seen.trigger_failure}"
        return unknown("TriggersReady", "TriggerReconcileError", message)
    if not ready:
        return unknown("TriggersReady", "TriggersNotReady", "not all triggers are ready yet")
    return true("TriggersReady")


def _broker_finding(seen: RequestReplyObservation) -> ConditionFinding:
    if seen.broker is None:
        return unknown("BrokerReady", "NotFound", f"could not get broker: {seen.broker_failure}")
    if not is_ready(seen.broker):
        return false("BrokerReady", "NotReady", "broker is not ready")
    return true("BrokerReady")
