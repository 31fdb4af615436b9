"""The three versions of an EventType, turned into each other.

v1beta3 describes an event by a list of attributes; v1beta1 and v1beta2 by the fields `type`, `source` and `schema`.
v1beta3 is what is stored, since it alone can hold everything but `schemaData`.
"""

from __future__ import annotations

import copy
from typing import Any

from penstock.resources.admission import Obj

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
