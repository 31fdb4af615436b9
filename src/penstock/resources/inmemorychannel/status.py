"""The status of an InMemoryChannel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import conclude, true, unknown
from penstock.resources.destinations.resolution import Resolution, ResolvedAddress, addresses, dead_letter_finding
from penstock.resources.eventpolicy.access import OPEN, TargetAccess
from penstock.resources.metadata import ObjectIdentity

ENDPOINTS_READY = "EndpointsReady"


@dataclass(frozen=True)
class ChannelObservation:
    """What the controller has found out."""

    addresses: tuple[ResolvedAddress, ...]
    """The one to prefer first, the one of plain HTTP last."""
    ingress_takes_it: bool
    """Whether every ingress acts by a snapshot that has this channel."""
    dead_letter: Resolution
    taken: Mapping[str, bool]
    """By uid of a subscriber: whether the data plane delivers to it as it is now."""
    waiting: str = ""
    """Why it cannot act by anything new for now, where that is known."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: ChannelObservation, now: str) -> dict[str, Any]:
    """The channel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    waiting = "There are no endpoints ready for Dispatcher service"
    endpoints = (
        true(ENDPOINTS_READY)
        if seen.ingress_takes_it
        else unknown(ENDPOINTS_READY, "DispatcherEndpointsNotReady", waiting)
    )
    findings = [endpoints, true("Addressable"), dead_letter_finding(seen.dead_letter), seen.access.finding()]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **addresses(*seen.addresses),
        **seen.access.fields(),
    }
    subscribers = (obj.get("spec") or {}).get("subscribers") or []
    if subscribers:
        status["subscribers"] = [_subscriber_status(one, seen.taken, seen.waiting) for one in subscribers]
    if isinstance(seen.dead_letter, ResolvedAddress):
        status |= seen.dead_letter.fields("deadLetterSink")
    return status


def _subscriber_status(subscriber: dict[str, Any], taken: Mapping[str, bool], waiting: str) -> dict[str, Any]:
    ready = taken.get(subscriber.get("uid", ""), False)
    state: dict[str, Any] = {
        "uid": subscriber.get("uid", ""),
        "observedGeneration": subscriber.get("generation", 0),
        "ready": "True" if ready else "Unknown",
    }
    if not ready:
        state["message"] = waiting or "The data plane has not taken up the subscription yet."
    return state
