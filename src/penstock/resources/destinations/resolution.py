"""What became of a destination: the address it leads to, or why it leads nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.conditions import ConditionFinding, false, true

DEAD_LETTER_SINK_RESOLVED = "DeadLetterSinkResolved"
EVENTS_RETAINED = "EventsRetained"
EXPIRING = "EventsExpiring"
EXPIRING_MESSAGE = (
    "Within an hour, retention begins to remove events that wait from wherever they are kept. Resume the route or let "
    "its subscriber take more; or raise retention_mib and retention_hours, or what the history keeps (history, "
    "history_mib, history_days)."
)


@dataclass(frozen=True)
class ResolvedAddress:
    """A resolved destination."""

    url: str
    ca_certs: str | None = None
    audience: str | None = None
    account: str = ""
    """ServiceAccount whose tokens go with what a source sends there."""

    def fields(self, prefix: str) -> dict[str, str]:
        """The address as `<prefix>Uri`, `<prefix>CACerts` and `<prefix>Audience`."""
        parts = {"Uri": self.url, "CACerts": self.ca_certs, "Audience": self.audience}
        return {f"{prefix}{name}": value for name, value in parts.items() if value}

    @classmethod
    def read(cls, fields: dict[str, Any], prefix: str) -> ResolvedAddress | None:
        """The address written by `fields`; None where there is none."""
        url = fields.get(f"{prefix}Uri")
        return cls(url, fields.get(f"{prefix}CACerts"), fields.get(f"{prefix}Audience")) if url else None


@dataclass(frozen=True)
class Unresolved:
    """Why a destination leads nowhere."""

    message: str


Resolution = ResolvedAddress | Unresolved | None
"""None: no destination was given."""


def dead_letter_finding(resolution: Resolution) -> ConditionFinding:
    """The condition `DeadLetterSinkResolved`."""
    if resolution is None:
        return true(DEAD_LETTER_SINK_RESOLVED, "DeadLetterSinkNotConfigured", "No dead letter sink is configured.")
    if isinstance(resolution, Unresolved):
        return false(DEAD_LETTER_SINK_RESOLVED, "Unable to get the dead letter sink's URI", resolution.message)
    return true(DEAD_LETTER_SINK_RESOLVED)


def loss_finding(losses: tuple[str, ...], *, expiring: bool = False) -> list[ConditionFinding]:
    """The condition `EventsRetained`, only where events were lost, or are about to be. It warns and does not count
    towards Ready."""
    if not losses:
        return [ConditionFinding(EVENTS_RETAINED, "Unknown", EXPIRING, EXPIRING_MESSAGE, "Warning")] if expiring else []
    message = "Events were removed by retention before they could be delivered: " + "; ".join(losses)
    more = f". More will be: {EXPIRING_MESSAGE}" if expiring else ""
    return [ConditionFinding(EVENTS_RETAINED, "False", "EventsLost", message + more, "Warning")]


def is_expiring(condition: Mapping[str, Any] | None) -> bool:
    """Whether the condition `EventsRetained` warns of a loss to come."""
    found = condition or {}
    return found.get("reason") == EXPIRING or EXPIRING_MESSAGE in str(found.get("message") or "")


def addresses(*known: ResolvedAddress) -> dict[str, Any]:
    """`address` and `addresses` of an Addressable. Who may choose takes the first; who knows only one gets the last."""
    addresses = [_addressable(address) for address in known]
    return {"address": addresses[-1], "addresses": addresses}


def _addressable(address: ResolvedAddress) -> dict[str, str]:
    optional = {"CACerts": address.ca_certs, "audience": address.audience}
    named = {"name": address.url.partition(":")[0], "url": address.url}
    return named | {name: value for name, value in optional.items() if value}
