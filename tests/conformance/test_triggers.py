"""The lifecycle of Triggers."""

from __future__ import annotations

import pytest

from tests.conformance.world import Manifest, World, binary, condition

NOWHERE: Manifest = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "nowhere"}}


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    """All Triggers at once: each change of routes takes a while to be in force."""
    for name in ("belongs", "waiting", "moving", "moved", "next"):
        world.sinks.open(name)
    brokers = world.make("{kind: Broker, metadata: {name: hub}}\n---\n{kind: Broker, metadata: {name: other}}")
    world.make("{apiVersion: v1, kind: Service, metadata: {name: letters}, spec: {ports: [{port: 80}]}}")
    ref = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "letters"}}
    made = [trigger(world, name) for name in ("belongs", "moving", "next")]
    made.append(trigger(world, "resolved", delivery={"deadLetterSink": ref}))
    trigger(world, "waiting", "later")
    trigger(world, "lost", subscriber=NOWHERE)
    trigger(world, "unresolved", delivery={"deadLetterSink": NOWHERE})
    world.all_ready(brokers + made)


def trigger(world: World, name: str, broker: str = "hub", **spec: Manifest) -> Manifest:
    return world.create(
        {
            "kind": "Trigger",
            "metadata": {"name": name},
            "spec": {"broker": broker, "subscriber": {"uri": f"{world.sinks.base}/{name}"}, **spec},
        }
    )


@pytest.mark.assertion("br-trigger-04", "et-broker-02")
def test_a_trigger_belongs_to_exactly_one_broker(world: World) -> None:
    spec = {"subscriber": {"uri": "http://127.0.0.1:1"}}
    refusal = world.refused(lambda: world.create({"kind": "Trigger", "metadata": {"name": "none"}, "spec": spec}))
    assert "spec.broker" in refusal
    sink = world.sinks["belongs"]
    world.send("Broker", "other", binary("belongs-other"))
    world.send("Broker", "hub", binary("belongs-hub"))
    sink.exactly("belongs-hub", 1)
    assert sink.got("belongs-other") == []


@pytest.mark.assertion("cp-trigger-01", "cp-trigger-02", "br-trigger-06")
def test_a_trigger_waits_for_its_broker(world: World) -> None:
    before = condition(world.ready("Trigger", "waiting", status="False"))
    assert before["reason"] == "BrokerDoesNotExist"
    world.create({"kind": "Broker", "metadata": {"name": "later"}, "spec": {}})
    world.ready("Trigger", "waiting")
    world.send("Broker", "later", binary("waited"))
    world.sinks["waiting"].wait("waited")


@pytest.mark.assertion("cp-trigger-04", "et-trigger-02", "et-trigger-03", "et-trigger-04", "cp-addressable-01")
@pytest.mark.assertion("cp-addressable-02", "et-destination-03", "et-destination-04")
def test_an_unresolvable_subscriber_makes_a_trigger_unready(world: World) -> None:
    found = world.ready("Trigger", "lost", status="False")
    assert not found["status"].get("subscriberUri")
    resolved = condition(found, "SubscriberResolved")
    assert resolved["status"] == "False"
    assert resolved["reason"]
    assert "nowhere" in resolved["message"]


@pytest.mark.assertion("cp-trigger-03", "cp-trigger-05", "et-trigger-01", "et-trigger-05", "br-trigger-03")
def test_subscriber_and_dead_letter_sink_are_resolved_before_ready(world: World) -> None:
    status = world.ready("Trigger", "resolved")["status"]
    assert status["subscriberUri"] == f"{world.sinks.base}/resolved"
    assert status["deadLetterSinkUri"].rstrip("/") == f"http://letters.{world.namespace}.svc.cluster.local"
    broken = world.ready("Trigger", "unresolved", status="False")
    assert condition(broken, "DeadLetterSinkResolved")["status"] == "False"


@pytest.mark.assertion("cp-trigger-06", "cp-trigger-07", "et-trigger-06")
def test_the_broker_of_a_trigger_cannot_change_and_the_rest_can(world: World) -> None:
    first, second = world.sinks["moving"], world.sinks["moved"]
    assert "Immutable" in world.refused(lambda: world.patch("Trigger", "moving", {"spec": {"broker": "other"}}))
    change = {"subscriber": {"uri": second.url}, "filter": {"attributes": {"type": "wanted"}}}
    world.patch("Trigger", "moving", {"spec": change})
    world.ready("Trigger", "moving")
    world.send("Broker", "hub", binary("unwanted-1", "unwanted"))
    world.send("Broker", "hub", binary("wanted-1", "wanted"))
    second.exactly("wanted-1", 1)
    assert second.got("unwanted-1") == first.got("wanted-1") == []


@pytest.mark.assertion(
    "cp-trigger-08", "et-trigger-07", "br-trigger-02", "br-delivery-03", "cp-broker-02", "et-broker-04"
)
@pytest.mark.assertion("cp-routing-05", "et-routing-05")
def test_a_ready_trigger_gets_every_event_from_then_on(world: World) -> None:
    sink = world.sinks["next"]
    for number in range(20):
        world.send("Broker", "hub", binary(f"next-{number}"))
    for number in range(20):
        sink.wait(f"next-{number}")
