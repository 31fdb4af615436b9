"""RequestReply (eventing.knative.dev/v1alpha1): requests and responses through a Broker."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.kube.kinds import Obj
from penstock.resources import features
from penstock.resources.admission import AdmissionContext
from penstock.resources.conditions import ConditionFinding, conclude, false, is_ready, true, unknown
from penstock.resources.delivery import check_delivery
from penstock.resources.destinations import check_reference
from penstock.resources.eventpolicy import EVENT_POLICIES_READY
from penstock.resources.field_errors import FieldErrors, disallowed, invalid, missing, within
from penstock.resources.metadata import ObjectIdentity, controller_reference
from penstock.runtime.times import NotADuration, parse_duration

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "RequestReply", "requestreplies"

KEYS_SECRET = "request-reply-keys"  # noqa: S105  # the name of a Secret
PART_OF = {"eventing.knative.dev/part-of": "request-reply"}


@dataclass(frozen=True)
class RequestReply:
    """The spec of the object, as far as the controllers use it."""

    obj: Obj
    identity: ObjectIdentity
    broker: str
    correlation_attribute: str
    reply_attribute: str
    timeout: float
    delivery: dict[str, Any] | None

    @classmethod
    def read(cls, obj: Obj) -> RequestReply:
        """The RequestReply behind a stored object."""
        spec = obj.get("spec") or {}
        try:
            timeout = parse_duration(str(spec.get("timeout") or "PT30S"))
        except NotADuration:
            timeout = 30.0
        return cls(
            obj,
            ObjectIdentity.read(obj),
            str((spec.get("brokerRef") or {}).get("name") or ""),
            str(spec.get("correlationAttribute") or "correlationid"),
            str(spec.get("replyAttribute") or "replyid"),
            timeout,
            spec.get("delivery"),
        )

    @property
    def key_prefix(self) -> str:
        """What the names of its keys begin with."""
        return f"{self.identity.namespace}.{self.identity.name}."

    def trigger(self, reply_url: str) -> Obj:
        """What brings the replies: events with the reply attribute; whether they are replies is verified there."""
        spec: dict[str, Any] = {
            "broker": self.broker,
            "filters": [{"cesql": f"EXISTS {self.reply_attribute}"}],
            "subscriber": {"uri": reply_url},
        }
        if self.delivery:
            spec["delivery"] = self.delivery
        labels = {
            "eventing.knative.dev/RequestReply.name": self.identity.name,
            "eventing.knative.dev/RequestReply.namespace": self.identity.namespace,
            "eventing.knative.dev/RequestReply.dataPlaneReplicas": "1",
        }
        metadata = {
            "name": f"{self.identity.name}0-1",
            "namespace": self.identity.namespace,
            "labels": labels,
            "ownerReferences": [controller_reference(self.obj)],
        }
        return {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": metadata, "spec": spec}

    def keys(self, secret: Obj | None) -> list[bytes]:
        """Its keys in the Secret, the newest first."""
        data = (secret or {}).get("data") or {}
        names = sorted((name for name in data if name.startswith(self.key_prefix)), reverse=True)
        return [key for name in names if (key := _decoded(data[name])) is not None]


def with_key(secret: Obj | None, namespace: str, name: str, key: bytes) -> Obj:
    """The Secret of all keys with one more."""
    entry = {name: base64.b64encode(key).decode()}
    if secret is not None:
        return {**secret, "data": {**(secret.get("data") or {}), **entry}}
    metadata = {"name": KEYS_SECRET, "namespace": namespace, "labels": dict(PART_OF)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": entry}


def without_keys(secret: Obj, prefix: str) -> Obj:
    """The Secret without the keys whose names begin so."""
    kept = {name: value for name, value in (secret.get("data") or {}).items() if not name.startswith(prefix)}
    return {**secret, "data": kept}


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in (16, 24, 32) else None


# Defaults.


TIMEOUT, TIMEOUT_FEATURE = "PT30S", "requestreply-default-timeout"
BROKER_LABEL = "eventing.knative.dev/broker"


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    spec = obj["spec"]
    if not spec.get("timeout"):
        spec["timeout"] = ctx.configmaps.get(features.CONFIG_MAP, {}).get(TIMEOUT_FEATURE) or TIMEOUT
    spec["correlationAttribute"] = spec.get("correlationAttribute") or "correlationid"
    spec["replyAttribute"] = spec.get("replyAttribute") or "replyid"
    metadata = obj.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), BROKER_LABEL: (spec.get("brokerRef") or {}).get("name", "")}


# Validation.


CORE = ("id", "source", "specversion", "type")


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the RequestReply. `source` is refused as well, as the message says; Knative's code has a
    misspelling there."""
    spec = obj.get("spec") or {}
    errors = within("brokerRef", _check_broker(spec.get("brokerRef") or {}))
    errors += within("delivery", check_delivery(spec.get("delivery"), ctx))
    errors += _check_timeout(spec.get("timeout"))
    for name in ("correlationAttribute", "replyAttribute"):
        value, shown = spec.get(name) or "", name.lower()
        if not value or value in CORE:
            details = (
                f"{shown} must be non-empty and cannot be a core cloudevent attribute (id, type, specversion, source)"
            )
            errors.append(invalid(value, shown, details))
        elif not (value.isascii() and value.isalnum() and value == value.lower()):
            errors.append(invalid(value, shown, "expected lower-case letters and digits"))
    return within("spec", errors)


def _check_broker(reference: dict[str, Any]) -> FieldErrors:
    errors = check_reference(reference, None)
    kind = str(reference.get("kind") or "")
    if kind.lower() != "broker":
        errors.append(invalid(kind, "kind", "brokerRef kind must be Broker"))
    if reference.get("namespace"):
        errors.append(disallowed("namespace"))
    return errors


def _check_timeout(timeout: str | None) -> FieldErrors:
    if timeout is None:
        return [missing("timeout")]
    try:
        seconds = parse_duration(timeout)
    except NotADuration as error:
        return [invalid(timeout, "timeout", str(error))]
    return [] if seconds > 0 else [invalid(timeout, "timeout", "timeout must be a positive duration")]


# Status.


BROKER_ADDRESS = "knative.dev/brokerAddress"


@dataclass(frozen=True)
class RequestReplyObservation:
    """What the controller has found out."""

    url: str
    broker: Mapping[str, Any] | None
    """As stored; None: there is none."""
    broker_failure: str
    """Why there is none."""
    trigger: Mapping[str, Any] | None
    trigger_failure: str | None = None


def status_of(obj: Obj, seen: RequestReplyObservation, now: str) -> dict[str, Any]:
    """The RequestReply's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    trigger_ready = seen.trigger is not None and is_ready(seen.trigger)
    policies = true(EVENT_POLICIES_READY, "NotImplemented", "Event policies not implemented for RequestReply yet")
    findings = [_trigger_finding(seen, ready=trigger_ready), true("Addressable"), policies, _broker_finding(seen)]
    status: dict[str, Any] = {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, findings, now),
        "address": {"name": "http", "url": seen.url},
        "desiredReplicas": 1,
        "readyReplicas": int(trigger_ready),
    }
    address = (((seen.broker or {}).get("status") or {}).get("address") or {}).get("url")
    if address:
        status["annotations"] = {BROKER_ADDRESS: address}
    return status


def _trigger_finding(seen: RequestReplyObservation, *, ready: bool) -> ConditionFinding:
    if seen.trigger_failure is not None:
        message = f"Encountered errors reconciling triggers: {seen.trigger_failure}"
        return unknown("TriggersReady", "TriggerReconcileError", message)
    if not ready:
        return unknown("TriggersReady", "TriggersNotReady", "not all triggers are ready yet")
    return true("TriggersReady")


def _broker_finding(seen: RequestReplyObservation) -> ConditionFinding:
    if seen.broker is None:
        return unknown("BrokerReady", "NotFound", f"could not get broker: {seen.broker_failure}")
    if not is_ready(seen.broker):
        return false("BrokerReady", "NotReady", "broker is not ready")
    return true("BrokerReady")


# How a reply is matched to its request: by the request's id, and that id encrypted with a secret key. `<id>:<nonce
# and ciphertext in base64>:<replica>`, as Knative writes it. An id may have colons of its own.

KEY_BYTES, NONCE_BYTES, REPLICA = 32, 12, 0


def correlation_of(event_id: str, key: bytes) -> str:
    """What a request carries."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, event_id.encode(), None)
    return f"{event_id}:{base64.urlsafe_b64encode(sealed).decode()}:{REPLICA}"


def request_of(correlation: str, keys: Iterable[bytes]) -> str | None:
    """The id of the request that a reply is to; None where the correlation was not made with one of the keys."""
    parts = correlation.rsplit(":", 2)
    if len(parts) != 3:
        return None
    event_id, sealed, _ = parts
    try:
        data = base64.b64decode(sealed, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return event_id if any(_opens(data, event_id, key) for key in keys) else None


def _opens(data: bytes, event_id: str, key: bytes) -> bool:
    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None) == event_id.encode()
    except (InvalidTag, ValueError):
        return False
