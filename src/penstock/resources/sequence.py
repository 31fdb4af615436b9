"""Sequence (flows.knative.dev/v1): steps that each get the reply of the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.channel import check_template, default_template
from penstock.resources.conditions import ConditionFinding, conclude, unknown
from penstock.resources.delivery import check_delivery
from penstock.resources.destinations import check_destination, fill_destination
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.field_errors import FieldErrors, invalid, missing, within
from penstock.resources.flow_parts import (
    Wiring,
    address_of,
    all_ready,
    auth_of,
    destination_of,
    findings_of,
    go_destination,
    go_struct,
    ready_of,
    reference_to,
)
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "flows.knative.dev", "Sequence", "sequences"


def part_name(sequence: str, step: int) -> str:
    """The name of the Channel in front of a step, and of the Subscription behind it."""
    return f"{sequence}-kn-sequence-{step}"


@dataclass(frozen=True)
class Sequence:
    """The spec of the object, as far as the controllers use it."""

    name: str
    wiring: Wiring
    steps: list[dict[str, Any]]
    reply: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> Sequence:
        """The Sequence behind a stored object."""
        spec = obj.get("spec") or {}
        wiring = Wiring(obj, dict(spec.get("channelTemplate") or {}))
        return cls(obj["metadata"]["name"], wiring, list(spec.get("steps") or []), spec.get("reply") or None)

    def channels(self) -> list[Obj]:
        """The Channel in front of each step."""
        return [self.wiring.channel(part_name(self.name, step)) for step in range(len(self.steps))]

    def subscriptions(self) -> list[Obj]:
        """The Subscription of each step; its replies are sent to the next Channel, those of the last to the reply."""
        return [self._subscription(number, step) for number, step in enumerate(self.steps)]

    def _subscription(self, number: int, step: dict[str, Any]) -> Obj:
        last = number == len(self.steps) - 1
        reply = self.reply if last else self.wiring.to_channel(part_name(self.name, number + 1))
        name = part_name(self.name, number)
        return self.wiring.subscription(name, name, destination_of(step), reply, step.get("delivery"))


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace, spec = namespace_of(obj, ctx), obj["spec"]
    if spec.get("channelTemplate") is None:
        spec["channelTemplate"] = default_template(ctx, namespace)
    for step in spec.get("steps") or []:
        fill_destination(step, namespace)
    fill_destination(spec.get("reply"), namespace)


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Sequence."""
    spec = obj.get("spec") or {}
    steps = spec.get("steps") or []
    errors: FieldErrors = [] if steps else [missing("steps")]
    for index, step in enumerate(steps):
        if check_destination(step) or check_delivery(step.get("delivery"), ctx):
            errors.append(invalid(_shown(step), f"steps[{index}]"))
    errors += check_template(spec.get("channelTemplate"))
    if spec.get("reply") is not None:
        errors += within("reply", check_destination(spec["reply"]))
    return within("spec", errors)


def _shown(step: dict[str, Any]) -> str:
    return go_struct((go_destination(step), step.get("delivery")))


# Status.


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
