"""The status of an ApiServerSource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy.access import NOBODY, SenderIdentity
from penstock.resources.sources.apiserversource.model import CHANGES, ApiServerSource, event_type
from penstock.resources.sources.source_status import (
    DEPLOYED,
    acceptance_finding,
    event_attributes,
    sink_fields,
    sink_finding,
)

SUFFICIENT_PERMISSIONS = "SufficientPermissions"


@dataclass(frozen=True)
class ApiServerObservation:
    """What the controller has found out."""

    api_url: str
    sink: ResolvedAddress | Unresolved
    namespaces: tuple[str, ...] = ()
    missing: str | None = None
    """Which permissions the ServiceAccount lacks; None where it lacks none."""
    watching: bool = False
    """Whether everything is watched, so that no change from now on is missed."""
    problem: str | None = None
    """Why something cannot be watched."""
    trouble: str | None = None
    """Why events wait for the sink; None where none does."""
    identity: SenderIdentity = NOBODY


def status_of(obj: Obj, seen: ApiServerObservation, now: str) -> dict[str, Any]:
    """The ApiServerSource's status."""
    source = ApiServerSource.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    findings = [
        sink_finding(seen.sink),
        _deployed(seen),
        _permissions(seen),
        seen.identity.finding(),
        *acceptance_finding(seen.trouble),
    ]
    status: dict[str, Any] = {
        "observedGeneration": source.identity.generation,
        "conditions": conclude(previous, findings, now),
        "namespaces": list(seen.namespaces),
        **sink_fields(seen.sink),
        **seen.identity.fields(),
    }
    if isinstance(seen.sink, ResolvedAddress) and seen.missing is None:
        status |= event_attributes(seen.api_url, *(event_type(source.mode, change) for change in CHANGES))
    return status


def _permissions(seen: ApiServerObservation) -> ConditionFinding:
    if isinstance(seen.sink, Unresolved):
        return unknown(SUFFICIENT_PERMISSIONS)
    return true(SUFFICIENT_PERMISSIONS) if seen.missing is None else false(SUFFICIENT_PERMISSIONS, "", seen.missing)


def _deployed(seen: ApiServerObservation) -> ConditionFinding:
    if isinstance(seen.sink, Unresolved) or seen.missing is not None:
        return unknown(DEPLOYED)
    if seen.problem is not None:
        return false(DEPLOYED, "WatchFailed", seen.problem)
    if seen.watching:
        return true(DEPLOYED)
    return unknown(DEPLOYED, "DeploymentUnavailable", "The watches have not begun yet.")
