"""JSON documents as bytes and as values, and access to the metadata of objects."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.kube.kinds import Obj

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Document(msgspec.Struct):
    metadata: _Labelled


_labels = msgspec.json.Decoder(_Document)


def encode(value: Any) -> bytes:
    """Compact JSON."""
    return _encoder.encode(value)


def decode(body: bytes) -> Any:
    """The value of a JSON document; raises msgspec.DecodeError if it is invalid."""
    return _decoder.decode(body)


def labels_of(body: bytes) -> dict[str, str]:
    """The labels of an encoded object, without decoding the rest."""
    return _labels.decode(body).metadata.labels or {}


def meta(obj: Obj) -> Obj:
    """The object's metadata, created if missing."""
    metadata: Obj = obj.setdefault("metadata", {})
    return metadata
