"""Validation, parts and status of EventTransforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.eventtransform import EventTransform, EventTransformObservation, status_of
from penstock.resources.features import Transport

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
JSONATA = {"expression": "$"}
SINK = {"uri": "http://sink"}


def transform(**spec: Any) -> Obj:
    metadata = {"name": "t", "namespace": "ns", "uid": "u", "generation": 1}
    return {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "EventTransform",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "expected exactly one, got neither: spec.jsonata"),
        ({"jsonata": JSONATA, "sink": {}}, "expected at least one, got none: spec.sink.ref, spec.sink.uri"),
        ({"jsonata": JSONATA, "reply": {"jsonata": JSONATA}}, "reply is set without spec.sink: spec.reply"),
        (
            {"jsonata": JSONATA, "sink": SINK, "reply": {"jsonata": JSONATA, "discard": True}},
            "expected exactly one, got both: spec.reply.discard, spec.reply.jsonata",
        ),
    ],
)
def test_a_transform_that_cannot_work_is_refused_in_knatives_words(
    refusal: Callable[..., str], spec: Obj, message: str
) -> None:
    assert refusal("EventTransform", transform(**spec)) == DENIED + message


def test_certificates_of_the_sink_are_refused(refusal: Callable[..., str]) -> None:
    text = refusal("EventTransform", transform(jsonata=JSONATA, sink={**SINK, "CACerts": "pem"}))
    assert text.startswith(DENIED + "CACerts for the sink is not supported for JSONata transformations")
    assert text.endswith(": spec.sink.CACerts")


def test_its_parts_are_a_deployment_that_knows_the_expressions_and_a_service() -> None:
    wanted = EventTransform.read(transform(jsonata=JSONATA, sink=SINK, reply={"jsonata": {"expression": "reply"}}))
    deployment, service = wanted.deployment("http://sink"), wanted.service()
    assert deployment["metadata"]["name"] == service["metadata"]["name"] == "t-jsonata"
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "JSONATA_TRANSFORM": "$",
        "JSONATA_RESPONSE_TRANSFORM": "reply",
        "JSONATA_DISCARD_RESPONSE_BODY": "false",
        "K_SINK": "http://sink",
    }
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert wanted.host == "t-jsonata.ns.svc.cluster.local"
    long = {**transform(), "metadata": {"name": "x" * 60, "namespace": "ns"}}
    assert len(EventTransform.read(long).part_name) == 63


@pytest.mark.parametrize(
    ("transport", "env", "ports"),
    [
        ("disabled", {}, {"http": (80, 8080)}),
        ("permissive", {"HTTPS_SERVICE": "t-jsonata"}, {"https": (443, 8443), "http": (80, 8080)}),
        ("strict", {"HTTPS_SERVICE": "t-jsonata", "DISABLE_HTTP_SERVER": "true"}, {"https": (443, 8443)}),
    ],
)
def test_its_parts_listen_as_transport_encryption_says(
    transport: Transport, env: dict[str, str], ports: dict[str, tuple[int, int]]
) -> None:
    wanted = EventTransform.read(transform(jsonata=JSONATA))
    [container] = wanted.deployment(None, transport)["spec"]["template"]["spec"]["containers"]
    told = {entry["name"]: entry["value"] for entry in container["env"]}
    assert {name: value for name, value in told.items() if not name.startswith("JSONATA_")} == env
    assert {one["name"]: one["containerPort"] for one in container["ports"]} == {
        name: target for name, (_, target) in ports.items()
    }
    leads = wanted.service(transport)["spec"]["ports"]
    assert {one["name"]: (one["port"], one["targetPort"]) for one in leads} == ports


RUNS = {"metadata": {"generation": 1}, "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}}


PLAIN = ResolvedAddress("http://t-jsonata.ns.svc.cluster.local")
SECURE = ResolvedAddress("https://t-jsonata.ns.svc.cluster.local", "pem")


def told(seen: EventTransformObservation) -> dict[str, tuple[str, str | None]]:
    conditions = status_of(transform(jsonata=JSONATA), seen, "now")["conditions"]
    return {one["type"]: (one["status"], one.get("reason")) for one in conditions}


def test_it_is_ready_when_its_deployment_runs() -> None:
    seen = EventTransformObservation(RUNS, ResolvedAddress("http://sink"), (PLAIN,))
    status = status_of(transform(jsonata=JSONATA), seen, "now")
    assert told(seen)["Ready"] == ("True", None)
    assert status["address"] == {"name": "http", "url": "http://t-jsonata.ns.svc.cluster.local"}
    assert status["sinkUri"] == "http://sink"
    assert status["jsonata"]["deployment"]["availableReplicas"] == 1


@pytest.mark.parametrize(
    ("known", "names"),
    [((PLAIN,), ["http"]), ((SECURE, PLAIN), ["https", "http"]), ((SECURE,), ["https"])],
)
def test_who_knows_one_address_gets_the_one_to_prefer(known: tuple[ResolvedAddress, ...], names: list[str]) -> None:
    status = status_of(transform(jsonata=JSONATA), EventTransformObservation(RUNS, None, known), "now")
    assert [one["name"] for one in status["addresses"]] == names
    assert status["address"] == status["addresses"][0]
    assert ("CACerts" in status["address"]) is (names[0] == "https")


def test_it_says_what_it_waits_for() -> None:
    stopped = {**RUNS, "status": {"replicas": 1, "availableReplicas": 0}}
    assert told(EventTransformObservation(stopped, None, (PLAIN,))) == {
        "Addressable": ("False", "WaitingForServiceEndpoints"),
        "EventPoliciesReady": ("True", "OIDCDisabled"),
        "JsonataDeploymentReady": ("False", "JsonataDeploymentUnavailable"),
        "JsonataSinkBindingReady": ("True", None),
        "Ready": ("False", "JsonataDeploymentUnavailable"),
        "TransformationReady": ("False", "JsonataDeploymentUnavailable"),
    }
    missing = told(EventTransformObservation(None, Unresolved("not there"), (PLAIN,)))
    assert missing["TransformationReady"] == missing["JsonataSinkBindingReady"] == ("False", "SinkNotFound")
    assert told(EventTransformObservation(None, None, (PLAIN,), "forbidden"))["JsonataDeploymentReady"][0] == "False"
