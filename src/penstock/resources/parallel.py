"""Parallel (flows.knative.dev/v1): branches that each get every event, behind a filter or not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.channel import check_template, default_template
from penstock.resources.conditions import READY, ConditionFinding, conclude, false
from penstock.resources.delivery import check_delivery
from penstock.resources.destinations import check_destination, fill_destination
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.field_errors import FieldErrors, invalid, missing, within
from penstock.resources.flow_parts import (
    Wiring,
    address_of,
    all_ready,
    auth_of,
    findings_of,
    go_destination,
    go_struct,
    ready_of,
    reference_to,
)
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "flows.knative.dev", "Parallel", "parallels"


def ingress_name(parallel: str) -> str:
    """The name of the Channel that takes the events."""
    return f"{parallel}-kn-parallel"


def branch_name(parallel: str, branch: int) -> str:
    """The name of a branch's Channel, and of the Subscription of its subscriber."""
    return f"{parallel}-kn-parallel-{branch}"


def filter_name(parallel: str, branch: int) -> str:
    """The name of the Subscription that leads into a branch."""
    return f"{parallel}-kn-parallel-filter-{branch}"


@dataclass(frozen=True)
class Parallel:
    """The spec of the object, as far as the controllers use it."""

    name: str
    wiring: Wiring
    branches: list[dict[str, Any]]
    reply: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> Parallel:
        """The Parallel behind a stored object."""
        spec = obj.get("spec") or {}
        wiring = Wiring(obj, dict(spec.get("channelTemplate") or {}))
        return cls(obj["metadata"]["name"], wiring, list(spec.get("branches") or []), spec.get("reply") or None)

    def channels(self) -> list[Obj]:
        """The Channel that takes the events, then that of each branch."""
        names = [ingress_name(self.name), *(branch_name(self.name, number) for number in range(len(self.branches)))]
        return [self.wiring.channel(name) for name in names]

    def filter_subscriptions(self) -> list[Obj]:
        """What leads into each branch."""
        return [self._into(number, branch.get("filter")) for number, branch in enumerate(self.branches)]

    def subscriptions(self) -> list[Obj]:
        """What leads from each branch's Channel to its subscriber."""
        return [self._behind(number, branch) for number, branch in enumerate(self.branches)]

    def _into(self, number: int, condition: dict[str, Any] | None) -> Obj:
        branch = self.wiring.to_channel(branch_name(self.name, number))
        subscriber, reply = (condition, branch) if condition else (branch, None)
        return self.wiring.subscription(filter_name(self.name, number), ingress_name(self.name), subscriber, reply)

    def _behind(self, number: int, branch: dict[str, Any]) -> Obj:
        name = branch_name(self.name, number)
        reply = branch.get("reply") or self.reply
        return self.wiring.subscription(name, name, branch.get("subscriber") or {}, reply, branch.get("delivery"))


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace, spec = namespace_of(obj, ctx), obj["spec"]
    if spec.get("channelTemplate") is None:
        spec["channelTemplate"] = default_template(ctx, namespace)
    for branch in spec.get("branches") or []:
        for name in ("filter", "subscriber", "reply"):
            fill_destination(branch.get(name), namespace)
    fill_destination(spec.get("reply"), namespace)


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Parallel. Delivery options that cannot be used are refused here and not only by the
    branch's Subscription, where Knative's controller would meet them later."""
    spec = obj.get("spec") or {}
    branches = spec.get("branches") or []
    errors: FieldErrors = [] if branches else [missing("branches")]
    for index, branch in enumerate(branches):
        errors += [invalid(_shown(branch), f"branches.{name}[{index}]") for name in _refused(branch)]
        errors += within(f"branches[{index}].delivery", check_delivery(branch.get("delivery"), ctx))
    errors += check_template(spec.get("channelTemplate"))
    if spec.get("reply") is not None:
        errors += within("reply", check_destination(spec["reply"]))
    return within("spec", errors)


def _refused(branch: dict[str, Any]) -> list[str]:
    """The destinations of a branch that lead nowhere."""
    given = {"subscriber": {}, **{name: branch[name] for name in _DESTINATIONS if branch.get(name) is not None}}
    return [name for name in _DESTINATIONS if name in given and check_destination(given[name])]


def _shown(branch: dict[str, Any]) -> str:
    subscriber = go_destination(branch.get("subscriber") or {})
    return go_struct((branch.get("filter"), subscriber, branch.get("reply"), branch.get("delivery")))


_DESTINATIONS = ("filter", "subscriber", "reply")


# Status.


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
