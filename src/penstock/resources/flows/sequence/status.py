"""The status of a Sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import Finding, conclude, true, unknown
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
class SequenceObservation:
    """What the controller has found out."""

    channels: list[Obj]
    subscriptions: list[Obj]
    channel_failure: str | None = None
    """Why the Channels cannot be had; nothing is known of Subscriptions then."""
    subscription_failure: str | None = None


def status_of(obj: Obj, seen: SequenceObservation, now: str) -> dict[str, Any]:
    """The Sequence's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    address = address_of(seen.channels[0]) if seen.channels else None
    shown = ("url", "CACerts", "audience")
    return {
        "observedGeneration": Identity.read(obj).generation,
        "conditions": conclude(previous, _findings(seen, address), now),
        "address": {name: value for name, value in (address or {}).items() if name in shown},
        "channelStatuses": [
            {"channel": reference_to(channel), "ready": ready_of(channel, "Channel")} for channel in seen.channels
        ],
        "subscriptionStatuses": [
            {"subscription": reference_to(one), "ready": ready_of(one, "Subscription")} for one in seen.subscriptions
        ],
    }


def _findings(seen: SequenceObservation, address: dict[str, Any] | None) -> list[Finding]:
    if seen.channel_failure is not None:
        channels = unknown(CHANNELS_READY, CHANNELS_NOT_READY, seen.channel_failure)
        return [channels, unknown(SUBSCRIPTIONS_READY), unknown(ADDRESSABLE), policies_finding()]
    channels = true(CHANNELS_READY)
    if not all_ready(seen.channels):
        channels = unknown(CHANNELS_READY, CHANNELS_NOT_READY, CHANNELS_WAITED_FOR)
    subscriptions = true(SUBSCRIPTIONS_READY)
    if seen.subscription_failure is not None or not all_ready(seen.subscriptions):
        why = seen.subscription_failure or SUBSCRIPTIONS_WAITED_FOR
        subscriptions = unknown(SUBSCRIPTIONS_READY, SUBSCRIPTIONS_NOT_READY, why)
    addressable = true(ADDRESSABLE) if address else unknown(ADDRESSABLE, "emptyAddress", "addressable is nil")
    return [channels, subscriptions, addressable, policies_finding()]
