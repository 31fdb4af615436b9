"""The status of a serving Service. It has neither Configuration nor Route; its conditions say what theirs would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.kservice.defaults import TRAFFIC
from penstock.resources.kservice.model import KService

CONFIGURATIONS_READY = "ConfigurationsReady"
ROUTES_READY = "RoutesReady"


@dataclass(frozen=True)
class KServiceObservation:
    """What the controller has found out."""

    deployment: Mapping[str, Any] | None
    """As stored; None: it cannot be had."""
    deployment_failure: str | None = None
    service_failure: str | None = None


def status_of(obj: Obj, seen: KServiceObservation, now: str) -> dict[str, Any]:
    """The Service's status."""
    wanted = KService.read(obj)
    before = obj.get("status") or {}
    running = _configuration_finding(wanted, seen)
    leading = _route_finding(wanted, seen, running)
    ready = wanted.revision if running.status == "True" else before.get("latestReadyRevisionName")
    status: dict[str, Any] = {
        "observedGeneration": wanted.identity.generation,
        "conditions": conclude(before.get("conditions") or [], [running, leading], now),
        "latestCreatedRevisionName": wanted.revision,
        "url": wanted.url,
        "address": {"url": wanted.url},
    }
    if ready:
        status["latestReadyRevisionName"] = ready
        status["traffic"] = [{**TRAFFIC, "revisionName": ready}]
    return status


def _configuration_finding(wanted: KService, seen: KServiceObservation) -> ConditionFinding:
    failure = seen.deployment_failure or _stuck(seen.deployment)
    if failure is not None:
        message = f'Revision "{wanted.revision}" failed with message: {failure}.'
        return false(CONFIGURATIONS_READY, "RevisionFailed", message)
    return true(CONFIGURATIONS_READY) if _runs(seen.deployment) else unknown(CONFIGURATIONS_READY)


def _route_finding(wanted: KService, seen: KServiceObservation, running: ConditionFinding) -> ConditionFinding:
    if seen.service_failure is not None:
        return false(ROUTES_READY, "NotOwned", seen.service_failure)
    name = wanted.identity.name
    if running.status == "False":
        return false(ROUTES_READY, "RevisionMissing", f'Configuration "{name}" does not have any ready Revision.')
    if running.status == "Unknown":
        message = f'Configuration "{name}" is waiting for a Revision to become ready.'
        return unknown(ROUTES_READY, "RevisionMissing", message)
    return true(ROUTES_READY)


def _runs(deployment: Mapping[str, Any] | None) -> bool:
    """Whether the Deployment as it is now has a Pod that serves; one of the revision before does not count."""
    status = (deployment or {}).get("status") or {}
    generation = ((deployment or {}).get("metadata") or {}).get("generation")
    current = status.get("observedGeneration") in (None, generation)
    updated, available = status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0
    return current and updated > 0 and available > 0 and (status.get("replicas") or 0) <= updated


def _stuck(deployment: Mapping[str, Any] | None) -> str | None:
    """Why the Deployment gets no further; None: it may."""
    conditions = ((deployment or {}).get("status") or {}).get("conditions")
    for kind, state in (("ReplicaFailure", "True"), ("Progressing", "False")):
        found = find(conditions, kind) or {}
        if found.get("status") == state:
            return str(found.get("message") or found.get("reason") or kind).rstrip(".")
    return None
