"""EventType (eventing.knative.dev/v1beta1 to v1beta3): what kinds of events may be had, and where."""

from __future__ import annotations

import copy
import hashlib
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.kube.kinds import Obj
from penstock.resources.admission import AdmissionContext, namespace_of
from penstock.resources.conditions import ConditionFinding, conclude, false, true, unknown
from penstock.resources.destinations import KReference, fill_namespace
from penstock.resources.field_errors import FieldErrors, missing, within
from penstock.resources.metadata import LONGEST_NAME, ObjectIdentity, is_object_name

# Model.


GROUP, KIND, PLURAL = "eventing.knative.dev", "EventType", "eventtypes"
DESCRIPTION = "Event Type auto-created by controller"

_SPARED = 10
_FOREIGN = re.compile(r"[^-a-z0-9.]")


def reference_of(obj: Obj) -> KReference | None:
    """What the EventType refers to; None: nothing."""
    reference = (obj.get("spec") or {}).get("reference") or {}
    return KReference.read(reference, ObjectIdentity.read(obj).namespace) if any(reference.values()) else None


class SeenEvent(NamedTuple):
    """An event whose type has no description yet: the fields of an EventType for it."""

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


def name_of(target: SentTo, seen: SeenEvent) -> str:
    """The name of the EventType to create: the same for the same target, type and source."""
    identity = target.identity
    text = f"{seen.type}{seen.source}{identity.namespace}{identity.name}"
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return _as_name(f"et-{identity.name}-{digest}")


def event_type_of(target: SentTo, seen: SeenEvent) -> Obj:
    """The EventType of an event, to be created. It is deleted with the target."""
    identity = target.identity
    owner = {"apiVersion": target.api_version, "kind": target.kind, "name": identity.name}
    attributes: list[dict[str, Any]] = [
        {"name": "type", "required": True, "value": seen.type},
        {"name": "source", "required": True, "value": seen.source},
        {"name": "schemadata", "required": True, **({"value": seen.schema} if seen.schema else {})},
        {"name": "specversion", "required": True, "value": seen.specversion},
        {"name": "id", "required": True},
    ]
    return {
        "apiVersion": NEWEST,
        "kind": KIND,
        "metadata": {
            "name": name_of(target, seen),
            "namespace": identity.namespace,
            "ownerReferences": [{**owner, "uid": identity.uid}],
        },
        "spec": {
            "attributes": attributes,
            "reference": {**owner, "namespace": identity.namespace, "address": target.address},
            "description": DESCRIPTION,
        },
    }


def _as_name(text: str) -> str:
    if is_object_name(text):
        return text
    cut = text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - _SPARED]
    return _FOREIGN.sub("", cut.lower()).strip("-.")


# Conversion.


NEWEST = "eventing.knative.dev/v1beta3"

_FIELDS = {"type": "type", "source": "source", "schemadata": "schema"}
"""Attributes of v1beta3 by the fields of the older versions; the odd name of the schema is Knative's."""


def convert(obj: Obj, api_version: str) -> Obj:
    """The object in another version."""
    is_new, becomes_new = obj.get("apiVersion") == NEWEST, api_version == NEWEST
    converted = {**obj, "apiVersion": api_version}
    if is_new == becomes_new or not isinstance(obj.get("spec"), dict):
        return converted
    return {**converted, "spec": _to_newest(obj["spec"]) if becomes_new else _from_newest(obj["spec"])}


def _to_newest(spec: dict[str, Any]) -> dict[str, Any]:
    attributes: list[dict[str, Any]] = [
        {"name": "specversion", "required": True},
        {"name": "id", "required": True},
        _attribute("type", spec.get("type")),
        _attribute("source", spec.get("source")),
    ]
    if spec.get("schema"):
        attributes.append({"name": "schemadata", "required": False, "value": spec["schema"]})
    reference = spec.get("reference")
    if reference is None and spec.get("broker"):
        reference = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": spec["broker"]}
    newest: dict[str, Any] = {"attributes": attributes}
    if reference is not None:
        newest["reference"] = copy.deepcopy(reference)
    return newest | _description(spec)


def _from_newest(spec: dict[str, Any]) -> dict[str, Any]:
    older: dict[str, Any] = {}
    for attribute in spec.get("attributes") or []:
        field = _FIELDS.get(attribute.get("name"))
        if field is not None and attribute.get("value"):
            older[field] = attribute["value"]
    if spec.get("reference") is not None:
        older["reference"] = copy.deepcopy(spec["reference"])
    return older | _description(spec)


def _attribute(name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "required": True, **({"value": value} if value else {})}


def _description(spec: dict[str, Any]) -> dict[str, Any]:
    return {"description": spec["description"]} if spec.get("description") else {}


# Defaults.


def fill(obj: Obj, ctx: AdmissionContext) -> None:
    """Fills in what was left out."""
    fill_namespace(obj["spec"].get("reference"), namespace_of(obj, ctx))


# Validation.


ALWAYS = ("type", "source", "specversion", "id")


def check(obj: Obj, old: Obj | None, ctx: AdmissionContext) -> FieldErrors:
    """Every complaint about the EventType."""
    spec = obj.get("spec") or {}
    if obj.get("apiVersion") != NEWEST:
        return within("spec", [] if spec.get("type") else [missing("type")])
    named = {attribute.get("name") for attribute in spec.get("attributes") or []}
    absent = [name for name in ALWAYS if name not in named]
    return within("spec.attributes", [missing(*absent)] if absent else [])


# Status.


REFERENCE_EXISTS = "ReferenceExists"


@dataclass(frozen=True)
class EventTypeObservation:
    """What the controller has found out."""

    refers: bool
    found: bool = False
    unreadable: str | None = None
    """Why it is not known whether it exists."""


def status_of(obj: Obj, seen: EventTypeObservation, now: str) -> dict[str, Any]:
    """The EventType's status."""
    previous = (obj.get("status") or {}).get("conditions") or []
    return {
        "observedGeneration": ObjectIdentity.read(obj).generation,
        "conditions": conclude(previous, [_finding(seen)], now),
    }


def _finding(seen: EventTypeObservation) -> ConditionFinding:
    if not seen.refers:
        return true(REFERENCE_EXISTS, "ReferenceNotSet", "spec.reference is not set")
    if seen.found:
        return true(REFERENCE_EXISTS)
    if seen.unreadable is not None:
        return unknown(REFERENCE_EXISTS, "ReferenceGetFailed", f"Failed to get reference: {seen.unreadable}")
    return false(REFERENCE_EXISTS, "ResourceDoesNotExist", "Resource in spec.reference does not exist")
