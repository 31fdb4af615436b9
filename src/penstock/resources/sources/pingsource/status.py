"""The status of a PingSource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, false, true, unknown
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved
from penstock.resources.eventpolicy.access import NOBODY, SenderIdentity
from penstock.resources.sources.pingsource.model import EVENT_TYPE, PingSource
from penstock.resources.sources.source_status import (
    DEPLOYED,
    acceptance_finding,
    event_attributes,
    sink_fields,
    sink_finding,
)


@dataclass(frozen=True)
class PingObservation:
    """What the controller has found out."""

    sink: ResolvedAddress | Unresolved
    bad_schedule: str | None = None
    """Why the schedule cannot be kept; only of objects that no admission has seen."""
    trouble: str | None = None
    """Why events wait for the sink; None where none does."""
    identity: SenderIdentity = NOBODY


def status_of(obj: Obj, seen: PingObservation, now: str) -> dict[str, Any]:
    """The PingSource's status."""
    source = PingSource.read(obj)
    previous = (obj.get("status") or {}).get("conditions") or []
    if seen.bad_schedule is not None:
        deployed = false(DEPLOYED, "InvalidSchedule", seen.bad_schedule)
    else:
        deployed = true(DEPLOYED) if isinstance(seen.sink, ResolvedAddress) else unknown(DEPLOYED)
    findings = [sink_finding(seen.sink), deployed, seen.identity.finding(), *acceptance_finding(seen.trouble)]
    status: dict[str, Any] = {
        "observedGeneration": source.identity.generation,
        "conditions": conclude(previous, findings, now),
        **sink_fields(seen.sink),
        **seen.identity.fields(),
    }
    if isinstance(seen.sink, ResolvedAddress):
        status |= event_attributes(source.event_source, EVENT_TYPE)
    return status
