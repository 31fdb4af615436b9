"""Bodies in Kubernetes' protobuf form, which Go clients send for built-in kinds.

Answers are JSON, which every client accepts beside protobuf; only what clients send has to be understood.
"""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from penstock.apiserver import errors
from penstock.apiserver.protobuf.json_form import json_form
from penstock.apiserver.protobuf.messages import RUNTIME, kind_message, message
from penstock.kube.kinds import Obj

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


def parse(body: bytes) -> Obj:
    """The object in a protobuf body; raises 400 if it cannot be read and 415 if its kind has no protobuf form."""
    if not body.startswith(_MAGIC):
        raise errors.bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope: Any = message(f"{RUNTIME}.Unknown")
        envelope.ParseFromString(body[len(_MAGIC) :])
        identity = {"apiVersion": str(envelope.typeMeta.apiVersion), "kind": str(envelope.typeMeta.kind)}
        return {**identity, **_content(identity, bytes(envelope.raw))}
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError, OSError):
        raise errors.bad_request("the body of the request is damaged protobuf") from None


def _content(identity: Obj, raw: bytes) -> Obj:
    try:
        found = kind_message(identity["apiVersion"], identity["kind"])
    except KeyError:
        raise errors.unsupported_media("application/json, application/yaml") from None
    found.ParseFromString(raw)
    form: Obj = json_form(found)
    return form
