"""What every source's status has: where events go, what they look like, and whether they arrive."""

from __future__ import annotations

from typing import Any

from penstock.resources.conditions import ConditionFinding, false, true
from penstock.resources.destinations.resolution import ResolvedAddress, Unresolved

SINK_PROVIDED = "SinkProvided"
DEPLOYED = "Deployed"
EVENTS_ACCEPTED = "EventsAccepted"


def sink_finding(sink: ResolvedAddress | Unresolved) -> ConditionFinding:
    """The condition `SinkProvided`."""
    return true(SINK_PROVIDED) if isinstance(sink, ResolvedAddress) else false(SINK_PROVIDED, "NotFound", sink.message)


def acceptance_finding(trouble: str | None) -> list[ConditionFinding]:
    """The condition `EventsAccepted`, only while events wait for the sink. It does not count towards Ready."""
    return (
        [] if trouble is None else [ConditionFinding(EVENTS_ACCEPTED, "False", "SinkNotAccepting", trouble, "Warning")]
    )


def sink_fields(sink: ResolvedAddress | Unresolved) -> dict[str, str]:
    """`sinkUri`, `sinkCACerts` and `sinkAudience`."""
    return sink.fields("sink") if isinstance(sink, ResolvedAddress) else {}


def event_attributes(source: str, *types: str) -> dict[str, Any]:
    """`ceAttributes`: source and type of the events."""
    return {"ceAttributes": [{"type": one, "source": source} for one in types]}
