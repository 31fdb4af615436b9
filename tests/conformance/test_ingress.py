"""What Brokers and Channels accept and refuse, and that it comes out as it went in."""

from __future__ import annotations

import json

import pytest

from tests.conformance.world import Manifest, World, binary, request, structured

TARGETS = [("Broker", "hub", "from-broker"), ("Channel", "line", "from-channel")]
each_target = pytest.mark.parametrize(("kind", "name", "sink"), TARGETS, ids=["Broker", "Channel"])


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("from-broker")
    world.sinks.open("from-channel")
    made = world.make(
        """
kind: Broker
metadata: {name: hub}
---
kind: Trigger
metadata: {name: all}
spec: {broker: hub, subscriber: {uri: "{sinks}/from-broker"}}
---
kind: Channel
metadata: {name: line}
---
kind: Subscription
metadata: {name: all}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: line}
  subscriber: {uri: "{sinks}/from-channel"}
"""
    )
    world.all_ready(made)


@each_target
@pytest.mark.assertion("cp-routing-02", "cp-topology-02", "et-protocol-01", "et-routing-02", "et-topology-02")
@pytest.mark.assertion("br-ingress-04", "br-ingress-06", "br-delivery-02", "et-verbs-01", "et-verbs-02")
def test_binary_and_structured_events_are_accepted_and_delivered(world: World, kind: str, name: str, sink: str) -> None:
    assert world.send(kind, name, binary(f"{kind}-binary")).status == 202
    headers, body = structured(f"{kind}-structured", datacontenttype="application/json", data={"a": 1})
    assert world.send(kind, name, headers, body).status == 202
    for mode in ("binary", "structured"):
        got = world.sinks[sink].wait(f"{kind}-{mode}")[0]
        assert got.method == "POST"
        assert got.attribute("specversion") == "1.0"
        assert json.loads(got.body) == {"a": 1}


@each_target
@pytest.mark.assertion("br-ingress-02", "br-ingress-03", "br-delivery-01")
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_every_attribute_arrives_as_it_was_sent(world: World, kind: str, name: str, sink: str, version: str) -> None:
    ident = f"{kind}-{version}"
    schema = "dataschema" if version == "1.0" else "schemaurl"
    sent = binary(
        ident,
        "com.example.Type",
        specversion=version,
        subject="a/b c",
        time="2024-02-29T23:59:59.123456789+02:00",
        extension="Value %E2%82%AC",
        **{schema: "https://example.com/schema"},
    )
    world.send(kind, name, sent)
    got = world.sinks[sink].wait(ident)[0]
    from urllib.parse import unquote

    for header, value in sent.items():
        assert unquote(got.headers[header]) == unquote(value), header


@each_target
@pytest.mark.assertion("br-ingress-05")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
def test_other_methods_are_refused(world: World, kind: str, name: str, sink: str, method: str) -> None:
    answer = request(world.address(kind, name), method, binary("1") if method in ("PUT", "PATCH") else {})
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


@each_target
@pytest.mark.assertion("et-verbs-03")
def test_options_tells_that_post_is_allowed(world: World, kind: str, name: str, sink: str) -> None:
    answer = request(world.address(kind, name), "OPTIONS")
    assert answer.status == 200
    assert "POST" in answer.headers["allow"]


MALFORMED: dict[str, tuple[Manifest, bytes]] = {
    "no event": ({"content-type": "application/json"}, b"{}"),
    "no id": ({k: v for k, v in binary("x").items() if k != "ce-id"}, b""),
    "no source": ({k: v for k, v in binary("x").items() if k != "ce-source"}, b""),
    "no type": ({k: v for k, v in binary("x").items() if k != "ce-type"}, b""),
    "empty type": (binary("x", ""), b""),
    "unknown version": (binary("x") | {"ce-specversion": "19.0"}, b""),
    "broken JSON": ({"content-type": "application/cloudevents+json"}, b'{"id":'),
    "JSON without type": (
        {"content-type": "application/cloudevents+json"},
        b'{"specversion":"1.0","id":"1","source":"s"}',
    ),
    "time that is none": (binary("x", time="yesterday"), b""),
}


@each_target
@pytest.mark.assertion("br-ingress-07", "et-ack-01", "et-ack-02")
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_events_are_refused(world: World, kind: str, name: str, sink: str, case: str) -> None:
    headers, body = MALFORMED[case]
    assert request(world.address(kind, name), "POST", headers, body).status == 400


@each_target
@pytest.mark.assertion("et-ack-04")
def test_the_same_event_is_accepted_twice(world: World, kind: str, name: str, sink: str) -> None:
    for _ in range(2):
        world.send(kind, name, binary(f"{kind}-again"))
    world.sinks[sink].exactly(f"{kind}-again", 2)
