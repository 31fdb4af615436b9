"""The lifecycle of Brokers."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.conformance.world import Manifest, World, binary, condition, request

CLASS = "eventing.knative.dev/broker.class"


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("brokers")
    made = world.make(
        """
kind: Broker
metadata: {name: plain}
---
kind: Broker
metadata: {name: letters}
spec: {delivery: {retry: 1, deadLetterSink: {uri: "{sinks}/brokers"}}}
---
kind: Broker
metadata: {name: configured}
spec: {config: {apiVersion: v1, kind: ConfigMap, name: one, namespace: "{namespace}"}}
"""
    )
    world.all_ready(made[:2])


@pytest.mark.assertion("cp-broker-01", "cp-broker-05", "cp-routing-01", "et-broker-01", "et-broker-03", "et-routing-01")
@pytest.mark.assertion("br-broker-02", "br-broker-03", "br-ingress-01", "cp-addressable-03", "et-destination-05")
def test_a_ready_broker_is_addressable_and_takes_events(world: World) -> None:
    broker = world.get("Broker", "plain")
    url = broker["status"]["address"]["url"]
    assert condition(broker)["status"] == "True"
    assert urlsplit(url).scheme in ("http", "https")
    assert request(url, "POST", binary("1"), b"{}").status == 202


@pytest.mark.assertion("cp-broker-03")
def test_class_and_config_are_filled_in_at_creation(world: World) -> None:
    broker = world.get("Broker", "plain")
    assert broker["metadata"]["annotations"][CLASS]
    assert "config" in broker["spec"]


@pytest.mark.assertion("cp-broker-04", "et-broker-05", "et-broker-06")
def test_class_and_config_cannot_change_but_a_broker_can_be_made_anew(world: World) -> None:
    another: Manifest = {"metadata": {"annotations": {CLASS: "Another"}}}
    assert "Immutable" in world.refused(lambda: world.patch("Broker", "configured", another))
    config: Manifest = {"spec": {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "two"}}}
    assert "Immutable" in world.refused(lambda: world.patch("Broker", "configured", config))
    world.delete("Broker", "configured")
    again = {"kind": "Broker", "metadata": {"name": "configured", "annotations": {CLASS: "Another"}}, "spec": {}}
    created = world.create(again)
    assert created["metadata"]["annotations"][CLASS] == "Another"


@pytest.mark.assertion("et-broker-schema-03")
def test_the_dead_letter_sink_of_a_broker_is_resolved(world: World) -> None:
    assert world.get("Broker", "letters")["status"]["deadLetterSinkUri"] == f"{world.sinks.base}/brokers"


@pytest.mark.assertion("et-schema-01", "et-schema-02")
@pytest.mark.parametrize(
    ("plural", "spec", "status"),
    [
        ("brokers.eventing", ("config", "delivery"), ("address", "deadLetterSinkUri")),
        ("triggers.eventing", ("broker", "filter", "subscriber", "delivery"), ("subscriberUri", "deadLetterSinkUri")),
        (
            "channels.messaging",
            ("channelTemplate", "subscribers", "delivery"),
            ("address", "subscribers", "deadLetterSinkUri"),
        ),
        ("subscriptions.messaging", ("channel", "subscriber", "reply", "delivery"), ("physicalSubscription",)),
    ],
)
def test_the_schema_has_the_fields_of_the_specification(
    world: World, plural: str, spec: tuple[str, ...], status: tuple[str, ...]
) -> None:
    crd = world.crd(f"{plural}.knative.dev")
    version = next(one for one in crd["spec"]["versions"] if one["name"] == "v1")
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    assert set(spec) <= set(schema["spec"]["properties"])
    assert {"conditions", "observedGeneration", *status} <= set(schema["status"]["properties"])
    assert set(schema["spec"].get("required", ())) <= set(spec)
