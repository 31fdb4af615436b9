"""How destinations are resolved."""

from __future__ import annotations

import pytest

from tests.conformance.world import Manifest, World, condition

SERVICE: Manifest = {"apiVersion": "v1", "kind": "Service", "name": "backend"}


SUBSCRIBERS: dict[str, Manifest] = {
    "service": {"ref": SERVICE},
    "channel": {"ref": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "line"}},
    "broker": {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "hub"}},
    "relative": {"ref": SERVICE, "uri": "/update?a=b"},
    "silent": {"ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "silent"}},
}


@pytest.fixture(scope="module", autouse=True)
def scene(world: World) -> None:
    made = world.make(
        """
kind: Broker
metadata: {name: hub}
---
kind: Channel
metadata: {name: line}
---
apiVersion: v1
kind: Service
metadata: {name: backend}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: silent}
data: {a: b}
"""
    )
    for name, subscriber in SUBSCRIBERS.items():
        spec = {"broker": "hub", "subscriber": subscriber}
        world.create({"kind": "Trigger", "metadata": {"name": name}, "spec": spec})
    world.all_ready(made)


def resolved(world: World, name: str) -> str:
    return str(world.ready("Trigger", name)["status"]["subscriberUri"])


@pytest.mark.assertion("et-destination-01", "et-schema-03")
def test_services_and_addressables_are_resolved(world: World) -> None:
    service = resolved(world, "service")
    assert service.rstrip("/") == f"http://backend.{world.namespace}.svc.cluster.local"
    assert resolved(world, "channel") == world.address("Channel", "line")
    assert resolved(world, "broker") == world.address("Broker", "hub")


@pytest.mark.assertion("et-destination-02")
def test_a_uri_is_relative_to_the_reference(world: World) -> None:
    found = resolved(world, "relative")
    assert found == f"http://backend.{world.namespace}.svc.cluster.local/update?a=b"


@pytest.mark.assertion("cp-addressable-01", "cp-addressable-02", "et-destination-03", "et-destination-04")
def test_what_has_no_address_is_an_error(world: World) -> None:
    found = world.ready("Trigger", "silent", status="False")
    assert condition(found, "SubscriberResolved")["status"] == "False"
    assert "silent" in condition(found)["message"] or "address" in condition(found)["message"]
