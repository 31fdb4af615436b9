"""The EventTypes of a source: what it sends, for those who look for events to subscribe to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

from penstock.resources.admission import Obj
from penstock.resources.destinations.kreference import fill_namespace
from penstock.resources.metadata import controller_reference
from penstock.yaml_files import documents

ANNOTATION = "registry.knative.dev/eventTypes"
LABEL = "eventing.knative.dev/sourceName"


@cache
def descriptions(package: ModuleType) -> Mapping[str, str]:
    """The types of events that a kind of source has, with a description, as its CRD tells them."""
    [crd] = documents(resources.files(package).joinpath("crd.yaml"))
    return {one["type"]: one["description"] for one in json.loads(crd["metadata"]["annotations"][ANNOTATION])}


def event_types_of(obj: Obj, status: Mapping[str, Any], described: Mapping[str, str]) -> list[Obj]:
    """The EventTypes that a source with this status has: none where its sink is a URL."""
    reference = ((obj.get("spec") or {}).get("sink") or {}).get("ref")
    if not reference:
        return []
    return [_event_type(obj, one["type"], one["source"], described) for one in status.get("ceAttributes") or []]


def name_of(obj: Obj, kind: str, source: str) -> str:
    """The name of the EventType of one type of events; as Knative makes it."""
    text = f"{kind}{source}{obj['metadata']['uid']}"
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _event_type(obj: Obj, kind: str, source: str, described: Mapping[str, str]) -> Obj:
    metadata, reference = obj["metadata"], dict(obj["spec"]["sink"]["ref"])
    fill_namespace(reference, metadata["namespace"])
    return {
        "apiVersion": "eventing.knative.dev/v1beta3",
        "kind": "EventType",
        "metadata": {
            "name": name_of(obj, kind, source),
            "namespace": metadata["namespace"],
            "labels": {LABEL: metadata["name"]},
            "ownerReferences": [controller_reference(obj)],
        },
        "spec": {
            "reference": reference,
            "description": described.get(kind, ""),
            "attributes": [
                {"name": "type", "required": True, "value": kind},
                {"name": "source", "required": True, "value": source},
                {"name": "specversion", "required": True, "value": "1.0"},
                {"name": "id", "required": True},
            ],
        },
    }
