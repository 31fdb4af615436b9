"""What the status of a flow says of the Channels and Subscriptions it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, ConditionFinding, find, true, unknown
from penstock.resources.eventpolicy.access import TargetAccess

CHANNELS_READY = "ChannelsReady"
SUBSCRIPTIONS_READY = "SubscriptionsReady"
ADDRESSABLE = "Addressable"

CHANNELS_NOT_READY = "ChannelsNotReady"
SUBSCRIPTIONS_NOT_READY = "SubscriptionsNotReady"
CHANNELS_WAITED_FOR = "Channels are not ready yet, or there are none"
SUBSCRIPTIONS_WAITED_FOR = "Subscriptions are not ready yet, or there are none"

Missing = Callable[[str, str, str], ConditionFinding]
"""What a flow calls a part that is not there: a Sequence does not know, for a Parallel it is false."""


def reference_to(part: Obj) -> dict[str, str]:
    """Which object it is."""
    metadata = part["metadata"]
    return {
        "apiVersion": part["apiVersion"],
        "kind": part["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
    }


def ready_of(part: Obj, noun: str) -> dict[str, Any]:
    """The part's own Ready."""
    ready = find((part.get("status") or {}).get("conditions"), READY)
    if ready is not None:
        return dict(ready)
    message = f"{noun} does not have Ready condition"
    return {"type": READY, "status": "Unknown", "reason": "NoReady", "message": message}


def all_ready(parts: Iterable[Obj]) -> bool:
    """Whether there are parts, and all of them are Ready."""
    states = [ready_of(part, "")["status"] for part in parts]
    return bool(states) and all(state == "True" for state in states)


def address_of(channel: Obj) -> dict[str, Any] | None:
    """Where the Channel takes events; None: nowhere yet."""
    address = (channel.get("status") or {}).get("address") or {}
    return dict(address) if address.get("url") else None


def auth_of(subscriptions: Iterable[Obj]) -> dict[str, Any]:
    """`auth` of the status: the identities as which a flow sends are those of its Subscriptions."""
    found = [((one.get("status") or {}).get("auth") or {}).get("serviceAccountName") for one in subscriptions]
    accounts = [account for account in found if account]
    return {"auth": {"serviceAccountNames": accounts}} if accounts else {}


def findings_of(
    missing: Missing,
    *,
    channels_ready: bool,
    subscriptions_ready: bool,
    address: dict[str, Any] | None,
    channel_failure: str | None,
    subscription_failure: str | None,
    access: TargetAccess,
) -> list[ConditionFinding]:
    """What is said of a flow's parts. Where the Channels cannot be had, nothing is known of the rest."""
    if channel_failure is not None:
        channels = missing(CHANNELS_READY, CHANNELS_NOT_READY, channel_failure)
        return [channels, unknown(SUBSCRIPTIONS_READY), unknown(ADDRESSABLE), access.finding()]
    channels = true(CHANNELS_READY)
    if not channels_ready:
        channels = missing(CHANNELS_READY, CHANNELS_NOT_READY, CHANNELS_WAITED_FOR)
    subscriptions = true(SUBSCRIPTIONS_READY)
    if subscription_failure is not None or not subscriptions_ready:
        why = subscription_failure or SUBSCRIPTIONS_WAITED_FOR
        subscriptions = missing(SUBSCRIPTIONS_READY, SUBSCRIPTIONS_NOT_READY, why)
    addressable = true(ADDRESSABLE) if address else missing(ADDRESSABLE, "emptyAddress", "addressable is nil")
    return [channels, subscriptions, addressable, access.finding()]
