"""A RequestReply as the controllers see it: a Trigger that brings replies, and keys that they are known by."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.durations import NotADuration, parse_duration
from penstock.resources.metadata import ObjectIdentity, controller_reference

GROUP, KIND, PLURAL = "eventing.knative.dev", "RequestReply", "requestreplies"

KEYS_SECRET = "request-reply-keys"  # noqa: S105  # the name of a Secret
PART_OF = {"eventing.knative.dev/part-of": "request-reply"}


@dataclass(frozen=True)
class RequestReply:
    """What is asked for."""

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
