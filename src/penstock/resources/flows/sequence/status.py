"""The status of a Sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import ConditionFinding, conclude, unknown
from penstock.resources.eventpolicy.access import OPEN, TargetAccess
from penstock.resources.flows.part_status import address_of, all_ready, auth_of, findings_of, ready_of, reference_to
from penstock.resources.metadata import ObjectIdentity


@dataclass(frozen=True)
class SequenceObservation:
    """What the controller has found out."""

    channels: list[Obj]
    subscriptions: list[Obj]
    channel_failure: str | None = None
    """Why the Channels cannot be had; nothing is known of Subscriptions then."""
    subscription_failure: str | None = None
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: SequenceObservation, now: str) -> dict[str, Any]:
    """The Sequence's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    address = address_of(seen.channels[0]) if seen.channels else None
    shown = ("url", "CACerts", "audience")
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, _findings(seen, address), now),
        "address": {name: value for name, value in (address or {}).items() if name in shown},
        "channelStatuses": [
            {"channel": reference_to(channel), "ready": ready_of(channel, "Channel")} for channel in seen.channels
        ],
        "subscriptionStatuses": [
            {"subscription": reference_to(one), "ready": ready_of(one, "Subscription")} for one in seen.subscriptions
        ],
        **seen.access.fields(),
        **auth_of(seen.subscriptions),
    }


def _findings(seen: SequenceObservation, address: dict[str, Any] | None) -> list[ConditionFinding]:
    return findings_of(
        unknown,
        channels_ready=all_ready(seen.channels),
        subscriptions_ready=all_ready(seen.subscriptions),
        address=address,
        channel_failure=seen.channel_failure,
        subscription_failure=seen.subscription_failure,
        access=seen.access,
    )
