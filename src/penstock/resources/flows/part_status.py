"""What the status of a flow says of the Channels and Subscriptions it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.conditions import READY, find

CHANNELS_READY = "ChannelsReady"
SUBSCRIPTIONS_READY = "SubscriptionsReady"
ADDRESSABLE = "Addressable"

CHANNELS_NOT_READY = "ChannelsNotReady"
SUBSCRIPTIONS_NOT_READY = "SubscriptionsNotReady"
CHANNELS_WAITED_FOR = "Channels are not ready yet, or there are none"
SUBSCRIPTIONS_WAITED_FOR = "Subscriptions are not ready yet, or there are none"


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
