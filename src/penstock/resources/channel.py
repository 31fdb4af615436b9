"""Channel (messaging.knative.dev/v1): the facade over a channel that does the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from penstock.kube.kinds import Obj
from penstock.resources.admission import CONTROLLER_USER, AdmissionContext, annotations_of, namespace_of
from penstock.resources.conditions import READY, ConditionFinding, conclude, false, find, true, unknown
from penstock.resources.delivery import check_delivery, fill_delivery
from penstock.resources.destinations import DEAD_LETTER_SINK_RESOLVED, ResolvedAddress, dead_letter_finding
from penstock.resources.eventpolicy import OPEN, TargetAccess
from penstock.resources.field_errors import FieldErrors, changed, disallowed, invalid, missing, within
from penstock.resources.metadata import ObjectIdentity, is_object_name

# Model.

GROUP, KIND, PLURAL = "messaging.knative.dev", "Channel", "channels"
SUBSCRIBABLE_ANNOTATION = "messaging.knative.dev/subscribable"
SUBSCRIBABLE_VERSION = "v1"
_NEVER = (".knative.dev", "penstock.dev")
"""Groups of kinds that are served here and are not channels. Those of Kubernetes have no dot, or end with `.k8s.io`."""


@dataclass(frozen=True)
class Channel:
    """The spec of the object, as far as the controllers use it."""

    identity: ObjectIdentity
    template: dict[str, Any]
    delivery: dict[str, Any] | None
    subscribers: list[dict[str, Any]]

    @classmethod
    def read(cls, obj: Obj) -> Channel:
        """The channel behind a stored object, whatever its kind."""
        spec = obj.get("spec") or {}
        return cls(
            ObjectIdentity.read(obj),
            dict(spec.get("channelTemplate") or {}),
            spec.get("delivery"),
            list(spec.get("subscribers") or []),
        )


# Defaults.


CONFIG_MAP = "default-ch-webhook"
KEY = "default-ch-config"
TEMPLATE = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    mark_subscribable(obj)
    spec = obj["spec"]
    if spec.get("channelTemplate") is None:
        spec["channelTemplate"] = default_template(ctx, namespace_of(obj, ctx))
    fill_delivery(spec.get("delivery"), namespace_of(obj, ctx))


def mark_subscribable(obj: Obj) -> None:
    """Notes which version of the subscribable contract the object follows."""
    annotations = annotations_of(obj)
    annotations.setdefault(SUBSCRIBABLE_ANNOTATION, SUBSCRIBABLE_VERSION)
    obj.setdefault("metadata", {})["annotations"] = annotations


def default_template(ctx: AdmissionContext, namespace: str) -> dict[str, Any]:
    """The default kind of channel in this namespace."""
    try:
        configured = yaml.safe_load(ctx.configmaps.get(CONFIG_MAP, {}).get(KEY, ""))
    except yaml.YAMLError:
        configured = None
    configured = configured if isinstance(configured, dict) else {}
    chosen = (configured.get("namespaceDefaults") or {}).get(namespace) or configured.get("clusterDefault") or TEMPLATE
    return {name: chosen[name] for name in ("apiVersion", "kind", "spec") if chosen.get(name)}


# Validation.


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the Channel."""
    spec = obj.get("spec") or {}
    template = spec.get("channelTemplate")
    errors: FieldErrors = []
    errors += check_template(template)
    subscribers = spec.get("subscribers") or []
    known = ((old or {}).get("spec") or {}).get("subscribers") or []
    if subscribers and subscribers != known and ctx.user != CONTROLLER_USER:
        errors.append(disallowed("subscribable.subscribers"))
    errors += check_subscriber_names(subscribers)
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors = within("spec", errors)
    if old is not None:
        errors += changed("Immutable fields changed", "v1.ChannelSpec", _fixed(old), _fixed(obj), "spec")
    return errors


def check_subscriber_names(subscribers: list[dict[str, Any]] | None) -> FieldErrors:
    """Names in the entries become parts of paths of the API, so they have to be names of objects."""
    errors: FieldErrors = []
    for index, entry in enumerate(subscribers or []):
        account = (entry.get("auth") or {}).get("serviceAccountName")
        for path, name in (("name", entry.get("name")), ("auth.serviceAccountName", account)):
            if name and not is_object_name(str(name)):
                errors.append(invalid(name, f"subscribable.subscriber[{index}].{path}"))
    return errors


def check_template(template: dict[str, Any] | None) -> FieldErrors:
    """What is wrong with the template that names the kind of channel."""
    if template is None:
        return [missing("channelTemplate")]
    errors = [missing(name) for name in ("kind", "apiVersion") if not template.get(name)]
    version, kind = str(template.get("apiVersion")), str(template.get("kind"))
    if not errors and not _may_be_a_channel(version.rpartition("/")[0], kind):
        errors.append(invalid(kind, "kind", f"{kind} of {version} is not a kind of channel"))
    return within("channelTemplate", errors)


def _may_be_a_channel(group: str, kind: str) -> bool:
    """Whether the controllers may make such an object for a user. They have rights that the user may not have, so that
    a template must not name a Pod, or a Trigger of a Broker in another namespace."""
    if "." not in group or group.endswith(".k8s.io"):
        return False
    if group == GROUP:
        return kind.lower() != "subscription"
    return not group.endswith(_NEVER)


def _fixed(obj: Obj) -> dict[str, Any]:
    return {name: value for name, value in (obj.get("spec") or {}).items() if name != "subscribers"}


# Status.


BACKING_CHANNEL_READY = "BackingChannelReady"


@dataclass(frozen=True)
class BackingChannel:
    """What the controller has found out about the channel that does the work."""

    reference: dict[str, str]
    obj: Mapping[str, Any] | None
    """The channel as stored; None: there is none yet."""
    failure: str | None = None
    """Why it could not be created or read."""


def status_of(obj: Obj, backing: BackingChannel, now: str, access: TargetAccess = OPEN) -> dict[str, Any]:
    """The Channel's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    theirs: Mapping[str, Any] = (backing.obj or {}).get("status") or {}
    has_address = bool((theirs.get("address") or {}).get("url"))
    addressable = (
        true("Addressable") if has_address else false("Addressable", "EmptyHostname", "hostname is the empty string")
    )
    if backing.obj is None:
        addressable = unknown("Addressable")
    wants_dead_letters = bool(((obj.get("spec") or {}).get("delivery") or {}).get("deadLetterSink"))
    findings = [
        _backing_finding(backing),
        addressable,
        _dead_letter_finding(wants_dead_letters, backing, theirs),
        access.finding(),
    ]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        **access.fields(),
    }
    if backing.obj is not None:
        status["channel"] = backing.reference
    copied = ("address", "addresses", "subscribers", "deadLetterSinkUri", "deadLetterSinkCACerts")
    for name in (*copied, "deadLetterSinkAudience"):
        if theirs.get(name):
            status[name] = theirs[name]
    return status


def _backing_finding(backing: BackingChannel) -> ConditionFinding:
    if backing.failure is not None:
        return false(BACKING_CHANNEL_READY, "ChannelFailure", backing.failure)
    ready = find(((backing.obj or {}).get("status") or {}).get("conditions"), READY)
    if ready is None:
        message = "BackingChannel has not yet been reconciled."
        return unknown(BACKING_CHANNEL_READY, "BackingChannelNotConfigured", message)
    return ConditionFinding(
        BACKING_CHANNEL_READY, ready["status"], ready.get("reason") or "", ready.get("message") or ""
    )


def _dead_letter_finding(wanted: bool, backing: BackingChannel, theirs: Mapping[str, Any]) -> ConditionFinding:
    if not wanted:
        return dead_letter_finding(None)
    resolved = ResolvedAddress.read(dict(theirs), "deadLetterSink")
    if resolved is not None:
        return dead_letter_finding(resolved)
    if backing.obj is None or not theirs.get("conditions"):
        return unknown(DEAD_LETTER_SINK_RESOLVED)
    name = backing.reference.get("name", "")
    return false(DEAD_LETTER_SINK_RESOLVED, f"Backing Channel {name} didn't set status.deadLetterSinkURI")
