"""Versions, validation, names and status of EventTypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.eventtype import (
    NEWEST,
    EventTypeObservation,
    SeenEvent,
    SentTo,
    convert,
    event_type_of,
    name_of,
    status_of,
)
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.registry import CONVERSIONS, crds

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
OLD = "eventing.knative.dev/v1beta2"
REFERENCE = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "default"}


def event_type(version: str, **spec: Any) -> Obj:
    return {"apiVersion": version, "kind": "EventType", "metadata": {"name": "e"}, "spec": spec}


def test_an_older_event_type_is_stored_by_its_attributes_and_comes_back_as_it_was() -> None:
    older = event_type(OLD, type="t", source="/s", schema="http://schema", reference=REFERENCE, description="d")
    newest = convert(older, NEWEST)
    assert newest["apiVersion"] == NEWEST
    assert newest["spec"] == {
        "attributes": [
            {"name": "specversion", "required": True},
            {"name": "id", "required": True},
            {"name": "type", "required": True, "value": "t"},
            {"name": "source", "required": True, "value": "/s"},
            {"name": "schemadata", "required": False, "value": "http://schema"},
        ],
        "reference": REFERENCE,
        "description": "d",
    }
    assert convert(newest, OLD) == older
    assert convert(older, "eventing.knative.dev/v1beta1")["spec"] == older["spec"]


def test_a_broker_by_name_becomes_a_reference() -> None:
    newest = convert(event_type("eventing.knative.dev/v1beta1", type="t", broker="default"), NEWEST)
    assert newest["spec"]["reference"] == REFERENCE


def test_every_definition_whose_versions_differ_has_its_conversion() -> None:
    differing = {
        (crd["spec"]["group"], crd["spec"]["names"]["kind"])
        for crd in crds()
        if any(version["schema"] != crd["spec"]["versions"][0]["schema"] for version in crd["spec"]["versions"])
    }
    assert differing == set(CONVERSIONS)


@pytest.mark.parametrize(
    ("version", "spec", "message"),
    [
        (OLD, {}, "missing field(s): spec.type"),
        ("eventing.knative.dev/v1beta1", {"source": "/s"}, "missing field(s): spec.type"),
        (
            NEWEST,
            {},
            "missing field(s): spec.attributes.id, spec.attributes.source, spec.attributes.specversion, "
            "spec.attributes.type",
        ),
        (
            NEWEST,
            {"attributes": [{"name": "type"}, {"name": "id"}, {"name": "specversion"}]},
            "missing field(s): spec.attributes.source",
        ),
    ],
)
def test_an_event_type_without_a_type_is_refused(
    refusal: Callable[..., str], version: str, spec: Obj, message: str
) -> None:
    assert refusal("EventType", event_type(version, **spec)) == DENIED + message


def test_the_reference_gets_the_namespace_of_the_event_type(admit: Callable[..., Obj]) -> None:
    filled = admit("EventType", event_type(OLD, type="t", reference=dict(REFERENCE)))
    assert filled["spec"]["reference"] == {**REFERENCE, "namespace": "default"}


BROKER = SentTo("eventing.knative.dev/v1", "Broker", ObjectIdentity("ns", "b", "u"))


def test_what_passes_is_described_under_a_name_that_knative_would_give_it() -> None:
    made = event_type_of(BROKER, SeenEvent("t", "/s"))
    # The MD5 of type, source, namespace and name, one after the other.
    assert made["metadata"]["name"] == "et-b-61244edc0ce285668b715582effe4b35"
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b", "uid": "u"}
    ]
    assert made["spec"]["reference"] == {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "name": "b",
        "namespace": "ns",
        "address": "http",
    }
    assert {one["name"]: one.get("value") for one in made["spec"]["attributes"]} == {
        "type": "t",
        "source": "/s",
        "schemadata": None,
        "specversion": "1.0",
        "id": None,
    }
    assert convert(made, OLD)["spec"]["type"] == "t"


def test_a_name_that_would_be_too_long_is_cut() -> None:
    long = SentTo("eventing.knative.dev/v1", "Broker", ObjectIdentity("ns", "b" * 250, "u"))
    assert len(name_of(long, SeenEvent("t", "/s"))) == 243


def ready(seen: EventTypeObservation) -> tuple[str, str | None, str | None]:
    found = find(status_of(event_type(NEWEST), seen, "now")["conditions"], "ReferenceExists") or {}
    return found["status"], found.get("reason"), found.get("message")


def test_an_event_type_is_ready_when_what_it_refers_to_exists() -> None:
    assert ready(EventTypeObservation(refers=False)) == ("True", "ReferenceNotSet", "spec.reference is not set")
    assert ready(EventTypeObservation(refers=True, found=True)) == ("True", None, None)
    missing = ready(EventTypeObservation(refers=True))
    assert missing == ("False", "ResourceDoesNotExist", "Resource in spec.reference does not exist")
    hidden = ready(EventTypeObservation(refers=True, unreadable="forbidden"))
    assert hidden == ("Unknown", "ReferenceGetFailed", "Failed to get reference: forbidden")
