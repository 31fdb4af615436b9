"""The status of a Parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, Finding, conclude, false, true, unknown
from penstock.resources.flows.part_status import (
    ADDRESSABLE,
    CHANNELS_NOT_READY,
    CHANNELS_READY,
    CHANNELS_WAITED_FOR,
    SUBSCRIPTIONS_NOT_READY,
    SUBSCRIPTIONS_READY,
    SUBSCRIPTIONS_WAITED_FOR,
    address_of,
    all_ready,
    ready_of,
    reference_to,
)
from penstock.resources.metadata import Identity
from penstock.resources.resolution import policies_finding


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


def status_of(obj: Obj, seen: ParallelObservation, now: str) -> dict[str, Any]:
    """The Parallel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    address = address_of(seen.channels[0]) if seen.channels else None
    status: dict[str, Any] = {
        "observedGeneration": Identity.read(obj).generation,
        "conditions": conclude(previous, _findings(seen, address), now),
        "branchStatuses": _branches(seen),
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


def _findings(seen: ParallelObservation, address: dict[str, Any] | None) -> list[Finding]:
    if seen.channel_failure is not None:
        channels = false(CHANNELS_READY, CHANNELS_NOT_READY, seen.channel_failure)
        return [channels, unknown(SUBSCRIPTIONS_READY), unknown(ADDRESSABLE), policies_finding()]
    channels = true(CHANNELS_READY)
    if not all(address_of(channel) for channel in seen.channels):
        channels = false(CHANNELS_READY, CHANNELS_NOT_READY, CHANNELS_WAITED_FOR)
    subscriptions = true(SUBSCRIPTIONS_READY)
    if seen.subscription_failure is not None or not all_ready([*seen.filter_subscriptions, *seen.subscriptions]):
        why = seen.subscription_failure or SUBSCRIPTIONS_WAITED_FOR
        subscriptions = false(SUBSCRIPTIONS_READY, SUBSCRIPTIONS_NOT_READY, why)
    addressable = true(ADDRESSABLE) if address else false(ADDRESSABLE, "emptyAddress", "addressable is nil")
    return [channels, subscriptions, addressable, policies_finding()]
