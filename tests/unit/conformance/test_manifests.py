"""The manifests of the event delivery tests: those that the document names, and what its outputs show of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from penstock.conformance import catalog
from penstock.conformance.catalog import TESTS, DeliveryTest, Manifest, ManifestPlacement
from penstock.workloads.actors.options import read_options
from penstock.workloads.actors.sender import next_message


def environment(test: DeliveryTest) -> dict[str, str]:
    (emitter,) = catalog.load(test.emitter, ManifestPlacement())
    return {entry["name"]: entry.get("value", "") for entry in emitter["spec"]["containers"][0]["env"]}


def sinks(objects: list[Manifest]) -> set[str]:
    return {item["metadata"]["labels"]["component"] for item in objects if item["kind"] == "Service"}


def test_the_manifests_are_those_of_the_document() -> None:
    names = sorted(path.name for path in catalog.folder().glob("*.yaml"))
    expected = ["00-prepare.yaml", *sorted(name for test in TESTS for name in (test.scenario, test.emitter))]
    assert names == expected
    kinds = Counter(item["kind"] for name in names for item in catalog.load(name, ManifestPlacement()))
    assert kinds == {
        "Namespace": 1,
        "Role": 1,
        "RoleBinding": 1,
        "Channel": 1,
        "Broker": 1,
        "Pod": 31,
        "Service": 18,
        "Subscription": 7,
        "Trigger": 7,
    }


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.number)
def test_every_object_of_a_test_is_labelled_with_its_case(test: DeliveryTest) -> None:
    objects = catalog.load(test.scenario, ManifestPlacement()) + catalog.load(test.emitter, ManifestPlacement())
    assert {item["metadata"]["labels"]["case"] for item in objects} == {test.name}
    assert {item["metadata"]["namespace"] for item in objects} == {"conformance"}
    assert sinks(objects) == {sink.component for sink in test.sinks}


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.number)
def test_an_emitter_sends_the_event_that_the_document_prints(test: DeliveryTest) -> None:
    wanted = read_options("recordevents", environment(test)).sender
    assert wanted is not None
    message = next_message(wanted, 1)
    printed = test.sinks[0].observations[0].output
    assert [str(len(message.body))] == printed["httpHeaders"]["Content-Length"]
    attributes = {name[3:]: value for name, value in message.headers if name.startswith("ce-")}
    attributes["datacontenttype"] = dict(message.headers)["content-type"]
    attributes["data"] = json.loads(message.body)
    added = {name for name in printed["event"] if name.startswith("knative")}
    assert attributes == {name: value for name, value in printed["event"].items() if name not in added}


def test_what_an_emitter_sends_is_told() -> None:
    sent = catalog.sent_by(catalog.load("02-01-broker-ack.yaml", ManifestPlacement("elsewhere")))
    assert '"data": { "test": "broker-ack" }' in sent
    assert sent.endswith("/elsewhere/conformance-broker")


def test_a_moved_test_refers_to_its_own_namespace_only() -> None:
    placement = ManifestPlacement("conformance-05", image="registry.example/recordevents")
    for test in TESTS:
        for name in (catalog.PREPARE, test.scenario, test.emitter):
            for item in catalog.load(name, placement):
                place = item["metadata"].get("namespace") or item["metadata"]["name"]
                assert place == "conformance-05"
                text = json.dumps(item)
                assert "kn-channel.conformance.svc" not in text
                assert "/conformance/conformance-broker" not in text
                assert "knative-nightly" not in text


def test_emitters_send_where_they_are_told_to() -> None:
    (emitter,) = catalog.load("01-01-channel-ack.yaml", replace(ManifestPlacement(), sink="http://elsewhere"))
    env = {entry["name"]: entry.get("value") for entry in emitter["spec"]["containers"][0]["env"]}
    assert env["SINK"] == "http://elsewhere"
