"""The status of a Broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.destinations.resolution import Resolution, ResolvedAddress, addresses, dead_letter_finding
from penstock.resources.eventpolicy.access import OPEN, TargetAccess
from penstock.resources.metadata import ObjectIdentity

INGRESS_READY = "IngressReady"
CONFIG_PARSED = "ConfigParsed"
CLASS_NOT_SERVED = "BrokerClassNotServed"


@dataclass(frozen=True)
class BrokerObservation:
    """What the controller has found out."""

    addresses: tuple[ResolvedAddress, ...]
    """The one to prefer first, the one of plain HTTP last."""
    ingress_takes_it: bool
    """Whether every ingress acts by a snapshot that has this Broker."""
    dead_letter: Resolution
    config_problem: str | None = None
    """Why `spec.config` leads nowhere; None where it is found, or none is given."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: BrokerObservation, now: str) -> dict[str, Any]:
    """The Broker's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    ingress = (
        true(INGRESS_READY)
        if seen.ingress_takes_it
        else unknown(INGRESS_READY, "EndpointSlicesUnavailable", "The ingress has not taken up the Broker yet.")
    )
    findings = [
        ingress,
        true("Addressable"),
        _config_finding(seen.config_problem),
        dead_letter_finding(seen.dead_letter),
        seen.access.finding(),
    ]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **addresses(*seen.addresses),
        **seen.access.fields(),
    }
    if isinstance(seen.dead_letter, ResolvedAddress):
        status |= seen.dead_letter.fields("deadLetterSink")
    return status


def _config_finding(problem: str | None) -> ConditionFinding:
    if problem is None:
        return true(CONFIG_PARSED)
    return false(CONFIG_PARSED, "ChannelTemplateFailed", f"Error on setting up the ChannelTemplate: {problem}")


def status_of_unserved(obj: Obj, broker_class: str, served: Iterable[str], now: str) -> dict[str, Any]:
    """The status of a Broker whose class nobody here serves."""
    classes = ", ".join(f'"{name}"' for name in served)
    message = f'Brokers of the class "{broker_class}" are not served here; classes that are: {classes}'
    previous = (obj.get("status") or {}).get("conditions") or []
    findings = [false(INGRESS_READY, CLASS_NOT_SERVED, message)]
    return {"observedGeneration": ObjectIdentity.read(obj).generation, "conditions": conclude(previous, findings, now)}


def is_unattended(obj: Obj) -> bool:
    """Whether nobody but `status_of_unserved` has written the Broker's status: another controller may serve it."""
    ready = find((obj.get("status") or {}).get("conditions"), READY)
    return ready is None or ready.get("reason") == CLASS_NOT_SERVED
