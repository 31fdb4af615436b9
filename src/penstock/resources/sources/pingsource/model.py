"""A PingSource as the controllers see it."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.sources.source_spec import extensions_of

EVENT_TYPE = "dev.knative.sources.ping"
EVERY_MINUTE = "* * * * *"


@dataclass(frozen=True)
class PingSource:
    """What is asked for."""

    identity: ObjectIdentity
    schedule: str
    timezone: str
    content_type: str
    data: bytes | None
    extensions: dict[str, str]
    sink: dict[str, Any]

    @classmethod
    def read(cls, obj: Obj) -> PingSource:
        """The PingSource behind a stored object."""
        spec = obj.get("spec") or {}
        return cls(
            ObjectIdentity.read(obj),
            str(spec.get("schedule") or EVERY_MINUTE),
            str(spec.get("timezone") or ""),
            str(spec.get("contentType") or ""),
            _data(spec),
            {str(name): str(value) for name, value in extensions_of(spec).items()},
            dict(spec.get("sink") or {}),
        )

    @property
    def event_source(self) -> str:
        """The attribute `source` of its events."""
        return f"/apis/v1/namespaces/{self.identity.namespace}/pingsources/{self.identity.name}"


def _data(spec: Obj) -> bytes | None:
    """What an older validation let through and is no base64 counts as no data."""
    if spec.get("dataBase64"):
        try:
            return base64.b64decode(spec["dataBase64"], validate=True)
        except (binascii.Error, ValueError):
            return None
    return str(spec["data"]).encode() if spec.get("data") else None
