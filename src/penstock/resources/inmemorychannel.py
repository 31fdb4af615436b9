"""InMemoryChannel (messaging.knative.dev/v1): durable here, in spite of its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.admission import CONTROLLER_USER, AdmissionContext, annotations_of, namespace_of
from penstock.resources.channel import Channel, check_subscriber_names, mark_subscribable
from penstock.resources.conditions import conclude, false, true, unknown
from penstock.resources.delivery import check_delivery, fill_delivery
from penstock.resources.destinations import Resolution, ResolvedAddress, addresses, dead_letter_finding
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.field_errors import FieldErrors, changed, disallowed, invalid, missing, within
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "messaging.knative.dev", "InMemoryChannel", "inmemorychannels"
SCOPE_ANNOTATION = "eventing.knative.dev/scope"

InMemoryChannel = Channel


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    mark_subscribable(obj)
    fill_delivery(obj["spec"].get("delivery"), namespace_of(obj, ctx))


# Validation.


WEBHOOK = "validation.inmemorychannel.eventing.knative.dev"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the InMemoryChannel."""
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    for index, subscriber in enumerate(spec.get("subscribers") or []):
        if not subscriber.get("subscriberUri") and not subscriber.get("replyUri"):
            absent = missing("replyURI", "subscriberURI", details="expected at least one of, got none")
            errors += within(f"subscribable.subscriber[{index}]", [absent])
    if old is None and spec.get("subscribers") and ctx.user != CONTROLLER_USER:
        errors.append(disallowed("subscribable.subscribers"))
    errors += check_subscriber_names(spec.get("subscribers"))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    scope = annotations_of(obj).get(SCOPE_ANNOTATION)
    if scope is not None and scope not in ("cluster", "namespace"):
        path = f"metadata.annotations[{SCOPE_ANNOTATION}]"
        errors.append(invalid(scope, path, "expected either 'cluster' or 'namespace'"))
    if old is not None and ctx.user != CONTROLLER_USER:
        errors += _check_subscribers(obj, old, ctx)
    return errors


def _check_subscribers(obj: Obj, old: Obj, ctx: AdmissionContext) -> FieldErrors:
    before = (old.get("spec") or {}).get("subscribers") or []
    after = (obj.get("spec") or {}).get("subscribers") or []
    message = f"Channel.Spec.Subscribers changed by user {ctx.user} which was not the {CONTROLLER_USER} service account"
    errors = changed(message, "[]v1.SubscriberSpec", before, after, "spec.subscribers")
    # Knative's message for this one does not announce the order of the difference.
    return [type(error)(message, error.paths, error.details) for error in errors]


# Status.


ENDPOINTS_READY = "EndpointsReady"
CHANNEL_SERVICE_READY = "ChannelServiceReady"


@dataclass(frozen=True)
class ChannelObservation:
    """What the controller has found out."""

    addresses: tuple[ResolvedAddress, ...]
    """The one to prefer first, the one of plain HTTP last."""
    ingress_takes_it: bool
    """Whether every ingress acts by a snapshot that has this channel."""
    dead_letter: Resolution
    taken: Mapping[str, bool]
    """By uid of a subscriber: whether the data plane delivers to it as it is now."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By uid of a subscriber: why nothing is delivered to it."""
    service_owner: str = ""
    """What has the DNS name of this channel, where that is something else."""
    waiting: str = ""
    """Why it cannot act by anything new for now, where that is known."""
    access: TargetAccess = OPEN


def status_of(obj: Obj, seen: ChannelObservation, now: str) -> dict[str, Any]:
    """The channel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    waiting = "There are no endpoints ready for Dispatcher service"
    endpoints = (
        true(ENDPOINTS_READY)
        if seen.ingress_takes_it
        else unknown(ENDPOINTS_READY, "DispatcherEndpointsNotReady", waiting)
    )
    findings = [endpoints, true("Addressable"), dead_letter_finding(seen.dead_letter), seen.access.finding()]
    if seen.service_owner:
        identity = ObjectIdentity.read(obj)
        service = f"{identity.name}-kn-channel"
        problem = f'inmemorychannel: {identity.namespace}/{identity.name} does not own Service: "{service}"'
        message = f"Channel Service failed: {problem} (the name belongs to {seen.service_owner})"
        findings.append(false(CHANNEL_SERVICE_READY, "ChannelServiceFailed", message))
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **addresses(*seen.addresses),
        **seen.access.fields(),
    }
    subscribers = (obj.get("spec") or {}).get("subscribers") or []
    if subscribers:
        status["subscribers"] = [_subscriber_status(one, seen) for one in subscribers]
    if isinstance(seen.dead_letter, ResolvedAddress):
        status |= seen.dead_letter.fields("deadLetterSink")
    return status


def _subscriber_status(subscriber: dict[str, Any], seen: ChannelObservation) -> dict[str, Any]:
    uid = subscriber.get("uid", "")
    state: dict[str, Any] = {"uid": uid, "observedGeneration": subscriber.get("generation", 0)}
    if uid in seen.refused:
        return {**state, "ready": "False", "message": seen.refused[uid]}
    if seen.taken.get(uid, False):
        return {**state, "ready": "True"}
    message = seen.waiting or "The data plane has not taken up the subscription yet."
    return {**state, "ready": "Unknown", "message": message}
