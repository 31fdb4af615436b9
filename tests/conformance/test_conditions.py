"""Error signalling: conditions of every kind, their form, how Ready sums them up, and observedGeneration."""

from __future__ import annotations

import re

import pytest

from tests.conformance.world import Manifest, World, condition, settled

KINDS = ("Broker", "Trigger", "Channel", "Subscription")
SCENE = """
kind: Broker
metadata: {name: moving}
---
kind: Channel
metadata: {name: moving}
---
kind: Trigger
metadata: {name: moving}
spec: {broker: good, subscriber: {uri: "{sinks}/conditions"}}
---
kind: Subscription
metadata: {name: moving}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: good}
  subscriber: {uri: "{sinks}/conditions"}
---
kind: Broker
metadata: {name: good}
---
kind: Trigger
metadata: {name: good}
spec: {broker: good, subscriber: {uri: "{sinks}/conditions"}}
---
kind: Channel
metadata: {name: good}
---
kind: Subscription
metadata: {name: good}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: good}
  subscriber: {uri: "{sinks}/conditions"}
---
kind: Trigger
metadata: {name: bad}
spec: {broker: good, subscriber: {ref: {apiVersion: v1, kind: Service, name: nowhere}}}
---
kind: Subscription
metadata: {name: bad}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: good}
  subscriber: {ref: {apiVersion: v1, kind: Service, name: nowhere}}
---
kind: Subscription
metadata: {name: early}
spec:
  channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: later}
  subscriber: {uri: "{sinks}/conditions"}
"""


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    world.sinks.open("conditions")
    world.make(SCENE)
    for kind in KINDS:
        world.ready(kind, "good", "moving")
    world.ready("Trigger", "bad", status="False")
    world.ready("Subscription", "bad", status="False")
    world.until("Subscription", "early", lambda item: settled(item) and condition(item)["status"])


@pytest.mark.assertion("cp-conditions-01", "cp-conditions-03", "cp-broker-schema-01", "cp-trigger-schema-01")
@pytest.mark.assertion("cp-channel-schema-01", "cp-subscription-schema-01", "br-broker-01", "br-trigger-01")
@pytest.mark.assertion("et-status-01")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_well_formed_conditions(world: World, kind: str) -> None:
    status = world.get(kind, "good")["status"]
    types = [one["type"] for one in status["conditions"]]
    assert types.count("Ready") == 1
    assert len(set(types)) == len(types)
    for one in status["conditions"]:
        assert re.fullmatch(r"[A-Z][A-Za-z]+", one["type"])
        assert one["status"] in ("True", "False", "Unknown")
        assert one.get("severity", "") in ("", "Warning", "Info")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["lastTransitionTime"])
    assert condition({"status": status}).get("severity", "") == ""


@pytest.mark.assertion(
    "cp-conditions-02", "cp-conditions-04", "cp-conditions-06", "cp-conditions-07", "cp-conditions-08"
)
def test_ready_sums_up_the_other_conditions(world: World) -> None:
    items = [world.get(kind, "good") for kind in KINDS]
    items += [world.get("Trigger", "bad"), world.get("Subscription", "bad"), world.get("Subscription", "early")]
    for item in items:
        ready = condition(item)["status"]
        others = errors_of(item)
        if "False" in others:
            assert ready == "False"
        elif "Unknown" in others:
            assert ready in ("False", "Unknown")
        assert ready != "True" or set(others) <= {"True"}
    assert [condition(item)["status"] for item in items[:4]] == ["True"] * 4
    assert "False" in errors_of(items[4])


@pytest.mark.assertion("cp-conditions-05")
def test_unknown_means_not_decided_yet(world: World) -> None:
    early = condition(world.get("Subscription", "early"))
    assert early["status"] == "Unknown"
    world.create({"kind": "Channel", "metadata": {"name": "later"}})
    world.ready("Subscription", "early")


def errors_of(item: Manifest) -> list[str]:
    conditions = item["status"]["conditions"]
    return [one["status"] for one in conditions if one["type"] != "Ready" and not one.get("severity")]


@pytest.mark.assertion(
    "cp-broker-schema-02", "cp-trigger-schema-02", "cp-channel-schema-02", "cp-subscription-schema-02"
)
@pytest.mark.assertion(
    "et-broker-schema-02", "et-trigger-schema-01", "et-channel-schema-03", "et-subscription-schema-01"
)
@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("Broker", {"spec": {"delivery": {"retry": 3}}}),
        (
            "Trigger",
            {"spec": {"subscriber": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "gone"}, "uri": None}}},
        ),
        (
            "Subscription",
            {"spec": {"subscriber": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "gone"}, "uri": None}}},
        ),
        ("Channel", {"metadata": {"annotations": {"example.com/note": "x"}}}),
    ],
)
def test_observed_generation_moves_together_with_the_conditions(world: World, kind: str, patch: Manifest) -> None:
    first = world.ready(kind, "moving")
    changed = world.patch(kind, "moving", patch)
    # Whoever sees the new generation observed must see what it led to: here a subscriber that cannot be resolved.
    newest = world.until(kind, "moving", settled)
    assert newest["status"]["observedGeneration"] == changed["metadata"]["generation"]
    assert newest["status"]["observedGeneration"] >= first["status"]["observedGeneration"]
    wanted = "False" if kind in ("Trigger", "Subscription") else "True"
    assert condition(newest)["status"] == wanted
