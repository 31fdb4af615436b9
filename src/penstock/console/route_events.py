"""The API's Events about an object, by reason: its failures, drops and recoveries. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from penstock.kube.kinds import Obj
from penstock.kube.paths import api_path


@dataclass(frozen=True)
class RepeatedHappening:
    """What happened for one reason."""

    reason: str
    is_bad: bool
    count: int
    last: str
    message: str
    """The newest."""


def events_path(namespace: str, name: str) -> str:
    """Where the Events of an object are."""
    chosen = quote(f"involvedObject.name={name}", safe="")
    return f"{api_path('v1', 'events', namespace)}?fieldSelector={chosen}"


def happenings_of(answer: Obj | None, kind: str, name: str) -> list[RepeatedHappening]:
    """The Events of an object by reason, the newest first."""
    found: dict[str, RepeatedHappening] = {}
    events = [one for one in (answer or {}).get("items") or [] if _is_about(one, kind, name)]
    for event in sorted(events, key=_when):
        reason, before = str(event.get("reason") or ""), found.pop(str(event.get("reason") or ""), None)
        times = int(event.get("count") or (event.get("series") or {}).get("count") or 1)
        found[reason] = RepeatedHappening(
            reason,
            event.get("type") == "Warning",
            times + (before.count if before else 0),
            _when(event),
            str(event.get("message") or event.get("note") or ""),
        )
    return list(reversed(found.values()))


def _is_about(event: Obj, kind: str, name: str) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return about.get("kind") == kind and about.get("name") == name


def _when(event: Obj) -> str:
    metadata = event.get("metadata") or {}
    return str(event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp") or "")
