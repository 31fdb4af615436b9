"""Subscription (messaging.knative.dev/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.delivery import RouteOptions, check_delivery, check_options, fill_delivery
from penstock.resources.delivery_status import RouteObservation, delivery_fields
from penstock.resources.destinations import (
    KReference,
    Resolution,
    ResolvedAddress,
    Unresolved,
    check_destination,
    check_event_link,
    fill_destination,
    is_empty,
)
from penstock.resources.field_errors import FieldErrors, changed, disallowed, missing, within
from penstock.resources.metadata import ObjectIdentity

# Model.


GROUP, KIND, PLURAL = "messaging.knative.dev", "Subscription", "subscriptions"


@dataclass(frozen=True)
class Subscription:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    channel: KReference
    subscriber: dict[str, Any] | None
    reply: dict[str, Any] | None
    delivery: dict[str, Any] | None
    options: RouteOptions

    @classmethod
    def read(cls, obj: Obj) -> Subscription:
        """The Subscription behind a stored object."""
        spec = obj.get("spec") or {}
        identity = ObjectIdentity.read(obj)
        return cls(
            identity,
            KReference.read(spec.get("channel") or {}, identity.namespace),
            spec.get("subscriber") or None,
            spec.get("reply") or None,
            spec.get("delivery"),
            RouteOptions.read(obj),
        )


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    namespace = namespace_of(obj, ctx)
    spec = obj["spec"]
    fill_destination(spec.get("subscriber"), namespace)
    fill_destination(spec.get("reply"), namespace)
    fill_delivery(spec.get("delivery"), namespace)


# Validation.


_ONLY_LOCAL = "only name, apiVersion and kind are supported fields when feature.CrossNamespaceEventLinks is disabled"


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Subscription."""
    spec = obj.get("spec") or {}
    errors = within("spec", _check_spec(spec, ctx)) + check_options(obj)
    channel = spec.get("channel") or {}
    if any(channel.values()) and features.enabled("cross-namespace-event-links", ctx):
        errors += check_event_link(channel, f"{str(channel.get('kind')).lower()}s", obj, old, ctx)
    if old is not None:
        before, after = (old.get("spec") or {}).get("channel"), spec.get("channel")
        errors += changed(
            "Immutable fields changed", "v1.SubscriptionSpec", {"channel": before}, {"channel": after}, "spec"
        )
    return errors


def _check_spec(spec: dict[str, Any], ctx: AdmissionContext) -> FieldErrors:
    channel = spec.get("channel") or {}
    if not any(channel.values()):
        return [missing("channel", details="the Subscription must reference a channel")]
    errors = within("channel", _check_channel(channel, ctx))
    subscriber, reply = spec.get("subscriber"), spec.get("reply")
    if is_empty(subscriber) and features.enabled("strict-subscriber", ctx):
        errors.append(missing("subscriber", details="the Subscription must reference a subscriber"))
    elif is_empty(subscriber) and is_empty(reply):
        details = "the Subscription must reference at least one of (reply or a subscriber)"
        errors.append(missing("reply", "subscriber", details=details))
    for name, destination in (("subscriber", subscriber), ("reply", reply)):
        if destination is not None and not is_empty(destination):
            errors += within(name, check_destination(destination))
    return errors + within("delivery", check_delivery(spec.get("delivery"), ctx))


def _check_channel(channel: dict[str, Any], ctx: AdmissionContext) -> FieldErrors:
    errors = [missing(name) for name in ("name", "apiVersion", "kind") if not channel.get(name)]
    if channel.get("namespace") and not features.enabled("cross-namespace-event-links", ctx):
        errors.append(disallowed("namespace", details=_ONLY_LOCAL))
    return errors


# Status.


REFERENCES_RESOLVED = "ReferencesResolved"
ADDED_TO_CHANNEL = "AddedToChannel"
CHANNEL_READY = "ChannelReady"


@dataclass(frozen=True)
class SubscriptionObservation(RouteObservation):
    """What the controller has found out."""

    channel: Mapping[str, Any] | None
    """The referenced channel as stored; None: it cannot be had."""
    channel_failure: str
    """Why it cannot be had."""
    subscriber: Resolution
    reply: Resolution
    dead_letter: Resolution
    """The Subscription's own dead letter sink, or the channel's where the Subscription has no delivery options."""


def status_of(obj: Obj, seen: SubscriptionObservation, now: str) -> dict[str, Any]:
    """The Subscription's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, _findings(obj, seen), now),
        "physicalSubscription": _physical(seen),
        **delivery_fields(seen.delivery, seen.paused),
        **seen.identity.fields(),
    }


def subscriber_spec(obj: Obj, seen: SubscriptionObservation, delivery: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of `spec.subscribers` of the channel; None where not everything is resolved."""
    resolutions = (seen.subscriber, seen.reply, seen.dead_letter)
    if seen.channel is None or any(isinstance(one, Unresolved) for one in resolutions):
        return None
    identity = ObjectIdentity.read(obj)
    entry: dict[str, Any] = {"name": identity.name, "uid": identity.uid, "generation": identity.generation}
    entry |= seen.identity.fields()
    if isinstance(seen.subscriber, ResolvedAddress):
        entry |= seen.subscriber.fields("subscriber")
    if isinstance(seen.reply, ResolvedAddress):
        entry |= seen.reply.fields("reply")
    options = {name: value for name, value in delivery.items() if name != "deadLetterSink"}
    if isinstance(seen.dead_letter, ResolvedAddress):
        fields = {"uri": seen.dead_letter.url, "CACerts": seen.dead_letter.ca_certs}
        fields["audience"] = seen.dead_letter.audience
        options["deadLetterSink"] = {name: value for name, value in fields.items() if value}
    if options:
        entry["delivery"] = options
    return entry


def _physical(seen: SubscriptionObservation) -> dict[str, str]:
    physical: dict[str, str] = {}
    pairs = (("subscriber", seen.subscriber), ("reply", seen.reply), ("deadLetterSink", seen.dead_letter))
    for prefix, resolution in pairs:
        if isinstance(resolution, ResolvedAddress):
            physical |= resolution.fields(prefix)
        elif isinstance(resolution, Unresolved):
            physical[f"{prefix}Uri"] = ""
    return physical


def _findings(obj: Obj, seen: SubscriptionObservation) -> list[ConditionFinding]:
    references = _references_finding(seen)
    rest = [seen.identity.finding(), *seen.secrets.findings(), *seen.warnings(obj)]
    if references.status != "True" or seen.channel is None:
        return [references, unknown(ADDED_TO_CHANNEL), unknown(CHANNEL_READY), *rest]
    identity = ObjectIdentity.read(obj)
    entries = (seen.channel.get("spec") or {}).get("subscribers") or []
    added = any(one.get("uid") == identity.uid and one.get("generation") == identity.generation for one in entries)
    added_finding = true(ADDED_TO_CHANNEL) if added else unknown(ADDED_TO_CHANNEL, "NotAddedToChannel")
    return [references, added_finding, _channel_finding(identity, seen.channel), *rest]


def _references_finding(seen: SubscriptionObservation) -> ConditionFinding:
    if seen.channel is None:
        message = f"Failed to get Spec.Channel or backing channel: {seen.channel_failure}"
        return unknown(REFERENCES_RESOLVED, "ChannelReferenceFailed", message)
    if isinstance(seen.subscriber, Unresolved):
        message = f"Failed to resolve spec.subscriber: {seen.subscriber.message}"
        return false(REFERENCES_RESOLVED, "SubscriberResolveFailed", message)
    if isinstance(seen.reply, Unresolved):
        return false(REFERENCES_RESOLVED, "ReplyResolveFailed", f"Failed to resolve spec.reply: {seen.reply.message}")
    if isinstance(seen.dead_letter, Unresolved):
        message = f"Failed to resolve spec.delivery.deadLetterSink: {seen.dead_letter.message}"
        return false(REFERENCES_RESOLVED, "DeadLetterSinkResolveFailed", message)
    return true(REFERENCES_RESOLVED)


def _channel_finding(identity: ObjectIdentity, channel: Mapping[str, Any]) -> ConditionFinding:
    status = channel.get("status") or {}
    entry = next((one for one in status.get("subscribers") or [] if one.get("uid") == identity.uid), None)
    reason = "SubscriptionNotMarkedReadyByChannel"
    if entry is None or entry.get("observedGeneration", identity.generation) != identity.generation:
        name = (channel.get("metadata") or {}).get("name", "")
        message = f'subscription "{identity.name}" not present in channel "{name}" subscriber\'s list'
        return unknown(CHANNEL_READY, reason, f"Failed to get subscription status: {message}")
    if entry.get("ready") == "False":
        return false(CHANNEL_READY, reason, "Subscription marked by Channel as False")
    if entry.get("ready") != "True":
        return unknown(CHANNEL_READY, reason, "Subscription marked by Channel as Unknown")
    ready = find(status.get("conditions"), READY) or {}
    if ready.get("status") != "True":
        message = ready.get("message") or "The channel is not ready."
        return unknown(CHANNEL_READY, ready.get("reason") or "ChannelNotReady", message)
    return true(CHANNEL_READY)
