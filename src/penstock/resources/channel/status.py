"""The status of a Channel: mostly what its backing channel says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.destinations.resolution import DEAD_LETTER_SINK_RESOLVED, ResolvedAddress, dead_letter_finding
from penstock.resources.eventpolicy.access import OPEN, TargetAccess
from penstock.resources.metadata import ObjectIdentity

BACKING_CHANNEL_READY = "BackingChannelReady"


@dataclass(frozen=True)
class BackingChannel:
    """What the controller has found out about the channel that does the work."""

    reference: dict[str, str]
    obj: Mapping[str, Any] | None
    """The channel as stored; None: there is none yet."""
    failure: str | None = None
    """Why it could not be created or read."""


def status_of(obj: Obj, backing: BackingChannel, now: str, access: TargetAccess = OPEN) -> dict[str, Any]:
    """The Channel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    theirs: Mapping[str, Any] = (backing.obj or {}).get("status") or {}
    has_address = bool((theirs.get("address") or {}).get("url"))
    addressable = (
        true("Addressable") if has_address else false("Addressable", "EmptyHostname", "hostname is the empty string")
    )
    if backing.obj is None:
        addressable = unknown("Addressable")
    wants_dead_letters = bool(((obj.get("spec") or {}).get("delivery") or {}).get("deadLetterSink"))
    findings = [
        _backing_finding(backing),
        addressable,
        _dead_letter_finding(wants_dead_letters, backing, theirs),
        access.finding(),
    ]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **access.fields(),
    }
    if backing.obj is not None:
        status["channel"] = backing.reference
    copied = ("address", "addresses", "subscribers", "deadLetterSinkUri", "deadLetterSinkCACerts")
    for name in (*copied, "deadLetterSinkAudience"):
        if theirs.get(name):
            status[name] = theirs[name]
    return status


def _backing_finding(backing: BackingChannel) -> ConditionFinding:
    if backing.failure is not None:
        return false(BACKING_CHANNEL_READY, "ChannelFailure", backing.failure)
    ready = find(((backing.obj or {}).get("status") or {}).get("conditions"), READY)
    if ready is None:
        message = "BackingChannel has not yet been reconciled."
        return unknown(BACKING_CHANNEL_READY, "BackingChannelNotConfigured", message)
    return ConditionFinding(
        BACKING_CHANNEL_READY, ready["status"], ready.get("reason") or "", ready.get("message") or ""
    )


def _dead_letter_finding(wanted: bool, backing: BackingChannel, theirs: Mapping[str, Any]) -> ConditionFinding:
    if not wanted:
        return dead_letter_finding(None)
    resolved = ResolvedAddress.read(dict(theirs), "deadLetterSink")
    if resolved is not None:
        return dead_letter_finding(resolved)
    if backing.obj is None or not theirs.get("conditions"):
        return unknown(DEAD_LETTER_SINK_RESOLVED)
    name = backing.reference.get("name", "")
    return false(DEAD_LETTER_SINK_RESOLVED, f"Backing Channel {name} didn't set status.deadLetterSinkURI")
