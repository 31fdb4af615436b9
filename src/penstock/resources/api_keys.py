"""The annotation by which a Broker has API keys: a list of their digests, ends and limits.

A Broker with the annotation takes events only from senders with a key, or with a token that counts. What cannot be read
accepts no key: a mistake must not open what was meant to be closed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.contract.routes import Access, ApiKey, Target
from penstock.kube.kinds import Obj
from penstock.resources.admission import annotations_of

ANNOTATION = "penstock.dev/api-keys"


class StoredKey(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One key in the annotation."""

    name: str
    sha256: str
    created: str = ""
    expires: float | None = None
    """Unix time."""
    events_per_second: float | None = None
    bytes_per_second: float | None = None


_KEYS = msgspec.json.Decoder(list[StoredKey])


def stored_keys(obj: Obj) -> list[StoredKey]:
    """The keys of an object; none where what is there cannot be read."""
    try:
        return _KEYS.decode(annotations_of(obj).get(ANNOTATION, "[]"))
    except msgspec.MsgspecError:
        return []


def is_closed(obj: Obj) -> bool:
    """Whether an object takes events only from senders with a key, or with a token that counts."""
    return ANNOTATION in annotations_of(obj)


def annotation_of(keys: list[StoredKey]) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(keys).decode()


def with_keys(target: Target, obj: dict[str, Any]) -> Target:
    """The target with the keys of its object, if it has any."""
    if not is_closed(obj):
        return target
    keys = tuple(
        ApiKey(key.name, key.sha256, key.expires, key.events_per_second, key.bytes_per_second)
        for key in stored_keys(obj)
    )
    access = msgspec.structs.replace(target.access or Access(), keys=keys)
    return msgspec.structs.replace(target, access=access)
