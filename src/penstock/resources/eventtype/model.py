"""An EventType as the controllers see it, and those that are made of what passes."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

from penstock.resources.admission import Obj
from penstock.resources.destinations.kreference import KReference
from penstock.resources.eventtype.conversion import NEWEST
from penstock.resources.metadata import LONGEST_NAME, ObjectIdentity, is_object_name

GROUP, KIND, PLURAL = "eventing.knative.dev", "EventType", "eventtypes"
DESCRIPTION = "Event Type auto-created by controller"

_SPARED = 10
_FOREIGN = re.compile(r"[^-a-z0-9.]")


def reference_of(obj: Obj) -> KReference | None:
    """What the EventType refers to; None: nothing."""
    reference = (obj.get("spec") or {}).get("reference") or {}
    return KReference.read(reference, ObjectIdentity.read(obj).namespace) if any(reference.values()) else None


class Passed(NamedTuple):
    """An event of which nobody has described the type: what the description is made of."""

    type: str
    source: str
    schema: str = ""
    specversion: str = "1.0"


class SentTo(NamedTuple):
    """What the event was sent to."""

    api_version: str
    kind: str
    identity: ObjectIdentity
    address: str = "http"


def name_of(place: SentTo, passed: Passed) -> str:
    """The name of the EventType that is made: the same for the same place, type and source."""
    identity = place.identity
    text = f"{passed.type}{passed.source}{identity.namespace}{identity.name}"
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return _as_name(f"et-{identity.name}-{digest}")


def describe(place: SentTo, passed: Passed) -> Obj:
    """The EventType of an event, as it is created. It goes when the place goes."""
    identity = place.identity
    owner = {"apiVersion": place.api_version, "kind": place.kind, "name": identity.name}
    attributes: list[dict[str, Any]] = [
        {"name": "type", "required": True, "value": passed.type},
        {"name": "source", "required": True, "value": passed.source},
        {"name": "schemadata", "required": True, **({"value": passed.schema} if passed.schema else {})},
        {"name": "specversion", "required": True, "value": passed.specversion},
        {"name": "id", "required": True},
    ]
    return {
        "apiVersion": NEWEST,
        "kind": KIND,
        "metadata": {
            "name": name_of(place, passed),
            "namespace": identity.namespace,
            "ownerReferences": [{**owner, "uid": identity.uid}],
        },
        "spec": {
            "attributes": attributes,
            "reference": {**owner, "namespace": identity.namespace, "address": place.address},
            "description": DESCRIPTION,
        },
    }


def _as_name(text: str) -> str:
    if is_object_name(text):
        return text
    cut = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - _SPARED]
    return _FOREIGN.sub("", cut.lower()).strip("-.")
