"""What Sequences and Parallels have in common: their Channels and Subscriptions, and the status of those."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.conditions import READY, ConditionFinding, find, true, unknown
from penstock.resources.delivery import fill_delivery
from penstock.resources.destinations import fill_destination
from penstock.resources.eventpolicy import TargetAccess
from penstock.resources.metadata import ObjectIdentity, controller_reference

SUBSCRIPTION_VERSION, SUBSCRIPTION_KIND = "messaging.knative.dev/v1", "Subscription"


@dataclass(frozen=True)
class Wiring:
    """Makes the parts of one flow: all its Channels are of one kind, all its parts go when it goes."""

    flow: Obj
    template: dict[str, Any]
    """`spec.channelTemplate`."""

    @property
    def channel_version(self) -> str:
        """apiVersion of the Channels."""
        return str(self.template.get("apiVersion") or "")

    @property
    def channel_kind(self) -> str:
        """Kind of the Channels."""
        return str(self.template.get("kind") or "")

    def channel(self, name: str) -> Obj:
        """A Channel."""
        spec = copy.deepcopy(self.template.get("spec") or {})
        return self._part(self.channel_version, self.channel_kind, name, spec)

    def subscription(
        self,
        name: str,
        channel: str,
        subscriber: dict[str, Any],
        reply: dict[str, Any] | None,
        delivery: dict[str, Any] | None = None,
    ) -> Obj:
        """A Subscription to the Channel of that name, as it is stored once admission has filled in its namespaces."""
        reference = {"apiVersion": self.channel_version, "kind": self.channel_kind, "name": channel}
        spec: dict[str, Any] = {"channel": reference, "subscriber": subscriber, "reply": reply, "delivery": delivery}
        spec = copy.deepcopy({name: value for name, value in spec.items() if value is not None})
        namespace = ObjectIdentity.read(self.flow).namespace
        fill_destination(spec.get("subscriber"), namespace)
        fill_destination(spec.get("reply"), namespace)
        fill_delivery(spec.get("delivery"), namespace)
        return self._part(SUBSCRIPTION_VERSION, SUBSCRIPTION_KIND, name, spec)

    def to_channel(self, name: str) -> dict[str, Any]:
        """The Channel of that name as a destination."""
        namespace = ObjectIdentity.read(self.flow).namespace
        reference = {"apiVersion": self.channel_version, "kind": self.channel_kind}
        return {"ref": {**reference, "name": name, "namespace": namespace}}

    def _part(self, api_version: str, kind: str, name: str, spec: dict[str, Any]) -> Obj:
        metadata = {
            "name": name,
            "namespace": ObjectIdentity.read(self.flow).namespace,
            "ownerReferences": [controller_reference(self.flow)],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def destination_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The destination among other fields of a step."""
    return {name: fields[name] for name in ("ref", "uri", "CACerts", "audience") if fields.get(name) is not None}


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


_DESTINATION = ("ref", "uri", "CACerts", "audience")


def go_destination(fields: dict[str, object]) -> str:
    """A destination."""
    return go_struct(fields.get(name) for name in _DESTINATION)


def go_struct(values: Iterable[object]) -> str:
    """The values of a struct's fields, in order."""
    return "{" + " ".join(map(_go_value, values)) + "}"


def _go_value(value: object) -> str:
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
