"""The status of a Parallel."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, conclude, false
from penstock.resources.eventpolicy.access import OPEN, TargetAccess
from penstock.resources.flows.part_status import address_of, all_ready, auth_of, findings_of, ready_of, reference_to
from penstock.resources.metadata import ObjectIdentity


@dataclass(frozen=True)
class ParallelObservation:
    """What the controller has found out."""

    channels: list[Obj]
    """The Channel that takes the events, then that of each branch."""
    filter_subscriptions: list[Obj]
    subscriptions: list[Obj]
    channel_failure: str | None = None
    """Why the Channels cannot be had; nothing is known of Subscriptions then."""
    subscription_failure: str | None = None
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: ParallelObservation, now: str) -> dict[str, Any]:
    """The Parallel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    address = address_of(seen.channels[0]) if seen.channels else None
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, _findings(seen, address), now),
        "branchStatuses": _branches(seen),
        **seen.access.fields(),
        **auth_of(chain(*zip(seen.filter_subscriptions, seen.subscriptions, strict=False))),
    }
    if seen.channels:
        status["ingressChannelStatus"] = _channel_state(seen.channels[0])
    if address:
        status["address"] = address
    return status


def _branches(seen: ParallelObservation) -> list[dict[str, Any]]:
    parts = zip(seen.channels[1:], seen.filter_subscriptions, seen.subscriptions, strict=False)
    return [
        {
            "filterSubscriptionStatus": _subscription_state(condition),
            "filterChannelStatus": _channel_state(channel),
            "subscriberSubscriptionStatus": _subscription_state(subscription),
        }
        for channel, condition, subscription in parts
    ]


def _channel_state(channel: Obj) -> dict[str, Any]:
    ready = {"type": READY, "status": "True"}
    if address_of(channel) is None:
        ready = {"type": READY, "status": "False", "reason": "NotAddressable", "message": "Channel is not addressable"}
    return {"channel": reference_to(channel), "ready": ready}


def _subscription_state(subscription: Obj) -> dict[str, Any]:
    return {"subscription": reference_to(subscription), "ready": ready_of(subscription, "Subscription")}


def _findings(seen: ParallelObservation, address: dict[str, Any] | None) -> list[ConditionFinding]:
    return findings_of(
        false,
        channels_ready=all(address_of(channel) for channel in seen.channels),
        subscriptions_ready=all_ready([*seen.filter_subscriptions, *seen.subscriptions]),
        address=address,
        channel_failure=seen.channel_failure,
        subscription_failure=seen.subscription_failure,
        access=seen.access,
    )
