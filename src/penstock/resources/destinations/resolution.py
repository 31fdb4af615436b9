"""What became of a destination: the address it leads to, or why it leads nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.conditions import ConditionFinding, false, true

DEAD_LETTER_SINK_RESOLVED = "DeadLetterSinkResolved"
EVENTS_RETAINED = "EventsRetained"


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


def loss_finding(losses: tuple[str, ...]) -> list[ConditionFinding]:
    """The condition `EventsRetained`, only where events were lost. It warns and does not count towards Ready."""
    if not losses:
        return []
    message = "Events were removed by retention before they could be delivered: " + "; ".join(losses)
    return [ConditionFinding(EVENTS_RETAINED, "False", "EventsLost", message, "Warning")]


def addresses(*known: ResolvedAddress) -> dict[str, Any]:
    """`address` and `addresses` of an Addressable. Who may choose takes the first; who knows only one gets the last."""
    told = [_addressable(address) for address in known]
    return {"address": told[-1], "addresses": told}


def _addressable(address: ResolvedAddress) -> dict[str, str]:
    optional = {"CACerts": address.ca_certs, "audience": address.audience}
    named = {"name": address.url.partition(":")[0], "url": address.url}
    return named | {name: value for name, value in optional.items() if value}
