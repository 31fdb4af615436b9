"""Bodies in Kubernetes' protobuf form, which kubectl sends for `create namespace`, `auth can-i` and the like.

Answers are always JSON, which every client accepts; only what clients send has to be understood. The table names the
fields of the messages that come as bodies; a kind that is not listed is refused with 415, and the client is told.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.apiserver import errors
from penstock.apiserver.documents import Obj
from penstock.timestamps import rfc3339_of

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True)
class Field:
    """A field of a message: its name in JSON and what is in it."""

    name: str
    type: str = "text"
    """`text`, `bytes`, `number`, `flag`, `time`, `port`, `map`, `bytes-map`, or the name of a message."""
    many: bool = False
    zero: bool = False
    """Whether 0 is something else than nothing."""


def _texts(*names: str) -> dict[int, Field]:
    return {number: Field(name) for number, name in enumerate(names, 1)}


_METADATA = Field("metadata", "ObjectMeta")
_MESSAGES: dict[str, dict[int, Field]] = {
    "ObjectMeta": {
        1: Field("name"),
        2: Field("generateName"),
        3: Field("namespace"),
        5: Field("uid"),
        6: Field("resourceVersion"),
        7: Field("generation", "number"),
        8: Field("creationTimestamp", "time"),
        9: Field("deletionTimestamp", "time"),
        11: Field("labels", "map"),
        12: Field("annotations", "map"),
        13: Field("ownerReferences", "OwnerReference", many=True),
        14: Field("finalizers", many=True),
    },
    "OwnerReference": {
        1: Field("kind"),
        3: Field("name"),
        4: Field("uid"),
        5: Field("apiVersion"),
        6: Field("controller", "flag"),
        7: Field("blockOwnerDeletion", "flag"),
    },
    "Namespace": {1: _METADATA, 2: Field("spec", "NamespaceSpec")},
    "NamespaceSpec": {1: Field("finalizers", many=True)},
    "ConfigMap": {
        1: _METADATA,
        2: Field("data", "map"),
        3: Field("binaryData", "bytes-map"),
        4: Field("immutable", "flag"),
    },
    "Secret": {
        1: _METADATA,
        2: Field("data", "bytes-map"),
        3: Field("type"),
        4: Field("stringData", "map"),
        5: Field("immutable", "flag"),
    },
    "ServiceAccount": {
        1: _METADATA,
        2: Field("secrets", "ObjectReference", many=True),
        3: Field("imagePullSecrets", "LocalObjectReference", many=True),
        4: Field("automountServiceAccountToken", "flag"),
    },
    "ObjectReference": _texts("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"),
    "LocalObjectReference": _texts("name"),
    "Service": {1: _METADATA, 2: Field("spec", "ServiceSpec")},
    "ServiceSpec": {
        1: Field("ports", "ServicePort", many=True),
        2: Field("selector", "map"),
        3: Field("clusterIP"),
        4: Field("type"),
        5: Field("externalIPs", many=True),
        7: Field("sessionAffinity"),
        10: Field("externalName"),
        13: Field("publishNotReadyAddresses", "flag"),
        17: Field("ipFamilyPolicy"),
        18: Field("clusterIPs", many=True),
        19: Field("ipFamilies", many=True),
    },
    "ServicePort": {
        1: Field("name"),
        2: Field("protocol"),
        3: Field("port", "number"),
        4: Field("targetPort", "port"),
        5: Field("nodePort", "number"),
        6: Field("appProtocol"),
    },
    "Role": {1: _METADATA, 2: Field("rules", "PolicyRule", many=True)},
    "ClusterRole": {
        1: _METADATA,
        2: Field("rules", "PolicyRule", many=True),
        3: Field("aggregationRule", "AggregationRule"),
    },
    "AggregationRule": {1: Field("clusterRoleSelectors", "LabelSelector", many=True)},
    "LabelSelector": {
        1: Field("matchLabels", "map"),
        2: Field("matchExpressions", "LabelSelectorRequirement", many=True),
    },
    "LabelSelectorRequirement": {1: Field("key"), 2: Field("operator"), 3: Field("values", many=True)},
    "PolicyRule": {
        1: Field("verbs", many=True),
        2: Field("apiGroups", many=True),
        3: Field("resources", many=True),
        4: Field("resourceNames", many=True),
        5: Field("nonResourceURLs", many=True),
    },
    "RoleBinding": {1: _METADATA, 2: Field("subjects", "Subject", many=True), 3: Field("roleRef", "RoleRef")},
    "ClusterRoleBinding": {1: _METADATA, 2: Field("subjects", "Subject", many=True), 3: Field("roleRef", "RoleRef")},
    "Subject": _texts("kind", "apiGroup", "name", "namespace"),
    "RoleRef": _texts("apiGroup", "kind", "name"),
    "SelfSubjectReview": {1: _METADATA},
    "SelfSubjectAccessReview": {1: _METADATA, 2: Field("spec", "AccessReviewSpec")},
    "SubjectAccessReview": {1: _METADATA, 2: Field("spec", "AccessReviewSpec")},
    "LocalSubjectAccessReview": {1: _METADATA, 2: Field("spec", "AccessReviewSpec")},
    "SelfSubjectRulesReview": {1: _METADATA, 2: Field("spec", "SelfSubjectRulesReviewSpec")},
    "SelfSubjectRulesReviewSpec": _texts("namespace"),
    "TokenReview": {1: _METADATA, 2: Field("spec", "TokenReviewSpec")},
    "TokenReviewSpec": {1: Field("token"), 2: Field("audiences", many=True)},
    "TokenRequest": {1: _METADATA, 2: Field("spec", "TokenRequestSpec")},
    "TokenRequestSpec": {
        1: Field("audiences", many=True),
        3: Field("boundObjectRef", "BoundObjectReference"),
        4: Field("expirationSeconds", "number", zero=True),
    },
    "BoundObjectReference": _texts("kind", "apiVersion", "name", "uid"),
    "AccessReviewSpec": {
        1: Field("resourceAttributes", "ResourceAttributes"),
        2: Field("nonResourceAttributes", "NonResourceAttributes"),
        3: Field("user"),
        4: Field("groups", many=True),
        6: Field("uid"),
    },
    "ResourceAttributes": _texts("namespace", "verb", "group", "version", "resource", "subresource", "name"),
    "NonResourceAttributes": _texts("path", "verb"),
    "DeleteOptions": {
        1: Field("gracePeriodSeconds", "number", zero=True),
        2: Field("preconditions", "Preconditions"),
        3: Field("orphanDependents", "flag"),
        4: Field("propagationPolicy"),
        5: Field("dryRun", many=True),
    },
    "Preconditions": _texts("uid", "resourceVersion"),
}
_ENVELOPE = {1: Field("type", "TypeMeta"), 2: Field("raw", "bytes")}
_MESSAGES["TypeMeta"] = _texts("apiVersion", "kind")


def parse(body: bytes) -> Obj:
    """The object in a protobuf body; raises 400 if it cannot be read and 415 if its kind is not known here."""
    if not body.startswith(_MAGIC):
        raise errors.bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = _message(body[len(_MAGIC) :], _ENVELOPE)
        identity = envelope.get("type") or {}
        kind = identity.get("kind", "")
        if kind not in _MESSAGES or kind == "TypeMeta":
            raise errors.unsupported_media("application/json, application/yaml")
        return {**identity, **_message(envelope.get("raw", b""), _MESSAGES[kind])}
    except (IndexError, UnicodeDecodeError, ValueError, OverflowError, OSError):
        raise errors.bad_request("the body of the request is damaged protobuf") from None


def _message(data: bytes, fields: dict[int, Field]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, value in _wire(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.type in ("map", "bytes-map"):
            entry = dict(_wire(_bytes(value)))
            content = _bytes(entry.get(2, b""))
            text = base64.b64encode(content).decode() if field.type == "bytes-map" else content.decode()
            result.setdefault(field.name, {})[_bytes(entry.get(1, b"")).decode()] = text
        elif field.many:
            result.setdefault(field.name, []).append(_value(value, field.type))
        elif field.type != "number" or field.zero or value != 0:
            result[field.name] = _value(value, field.type)
    # Go writes empty texts and messages for what was never set.
    return {name: value for name, value in result.items() if value not in ("", {}, None)}


def _value(value: int | bytes, type_: str) -> Any:  # noqa: PLR0911  # one answer per type reads best
    if type_ in ("number", "flag"):
        if not isinstance(value, int):
            raise ValueError("a number was expected")
        signed = value - (1 << 64) if value >= 1 << 63 else value
        return bool(value) if type_ == "flag" else signed
    content = _bytes(value)
    if type_ == "text":
        return content.decode()
    if type_ == "bytes":
        return content
    if type_ == "time":
        seconds = dict(_wire(content)).get(1)
        if not isinstance(seconds, int) or seconds <= 0:
            return None
        return rfc3339_of(seconds)
    if type_ == "port":
        parts = dict(_wire(content))
        return _bytes(parts.get(3, b"")).decode() if parts.get(1) else parts.get(2, 0)
    return _message(content, _MESSAGES[type_])


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("bytes were expected")
    return value


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as they are on the wire: numbers and byte strings."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise ValueError("unknown wire type")
        if position + length > len(data):
            raise ValueError("the message ends too early")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise ValueError("the number is too long")
