"""What sources have in common: the sink, `ceOverrides`, conditions, and the EventTypes of what they send."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from penstock.kube.kinds import Obj
from penstock.resources.conditions import ConditionFinding, false, true
from penstock.resources.destinations import ResolvedAddress, Unresolved, check_destination, fill_namespace
from penstock.resources.field_errors import FieldErrors, invalid_key, within
from penstock.resources.metadata import controller_reference
from penstock.runtime.yaml_files import documents

ANNOTATION = "registry.knative.dev/eventTypes"
LABEL = "eventing.knative.dev/sourceName"


@cache
def descriptions(kind: str) -> Mapping[str, str]:
    """The types of events of a kind of source (such as `pingsource`), with the descriptions in its CRD."""
    [crd] = documents(resources.files("penstock.resources").joinpath("crds", f"{kind}.yaml"))
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


def check_source(spec: Obj) -> FieldErrors:
    """What is wrong with the sink and the overrides."""
    errors = within("sink", check_destination(spec.get("sink") or {}))
    return errors + within("ceOverrides.extensions", _check_extensions(extensions_of(spec)))


def extensions_of(spec: Obj) -> dict[str, Any]:
    """The attributes to set on each event, as written."""
    return dict((spec.get("ceOverrides") or {}).get("extensions") or {})


def _check_extensions(extensions: dict[str, Any]) -> FieldErrors:
    for name in extensions:
        if not name:
            return [invalid_key(name, "", "keys MUST NOT be empty")]
        if not (name.isascii() and name.isalnum()):
            return [invalid_key(name, "", "keys are expected to be alphanumeric")]
    return []


SINK_PROVIDED = "SinkProvided"
DEPLOYED = "Deployed"
EVENTS_ACCEPTED = "EventsAccepted"


def sink_finding(sink: ResolvedAddress | Unresolved) -> ConditionFinding:
    """The condition `SinkProvided`."""
    return true(SINK_PROVIDED) if isinstance(sink, ResolvedAddress) else false(SINK_PROVIDED, "NotFound", sink.message)


def acceptance_finding(trouble: str | None) -> list[ConditionFinding]:
    """The condition `EventsAccepted`, only while events wait for the sink. It does not count towards Ready."""
    return (
        [] if trouble is None else [ConditionFinding(EVENTS_ACCEPTED, "False", "SinkNotAccepting", trouble, "Warning")]
    )


def sink_fields(sink: ResolvedAddress | Unresolved) -> dict[str, str]:
    """`sinkUri`, `sinkCACerts` and `sinkAudience`."""
    return sink.fields("sink") if isinstance(sink, ResolvedAddress) else {}


def event_attributes(source: str, *types: str) -> dict[str, Any]:
    """`ceAttributes`: source and type of the events."""
    return {"ceAttributes": [{"type": one, "source": source} for one in types]}
