"""The status of a Broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, true, unknown
from penstock.resources.metadata import Identity
from penstock.resources.resolution import Address, Resolution, addresses, dead_letter_finding, policies_finding

INGRESS_READY = "IngressReady"


@dataclass(frozen=True)
class BrokerObservation:
    """What the controller has found out."""

    url: str
    ingress_takes_it: bool
    """Whether every ingress acts by a snapshot that has this Broker."""
    dead_letter: Resolution


def status_of(obj: Obj, seen: BrokerObservation, now: str) -> dict[str, Any]:
    """The Broker's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    ingress = (
        true(INGRESS_READY)
        if seen.ingress_takes_it
        else unknown(INGRESS_READY, "EndpointSlicesUnavailable", "The ingress has not taken up the Broker yet.")
    )
    findings = [ingress, true("Addressable"), dead_letter_finding(seen.dead_letter), policies_finding()]
    status: dict[str, Any] = {
        "observedGeneration": Identity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **addresses(seen.url),
    }
    if isinstance(seen.dead_letter, Address):
        status |= seen.dead_letter.fields("deadLetterSink")
    return status
