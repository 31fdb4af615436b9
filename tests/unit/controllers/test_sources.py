"""Controllers of sources over an API in memory: what their status says, and what runs for them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from penstock.kube.kinds import (
    API_SERVER_SOURCE,
    BROKER,
    CONTAINER_SOURCE,
    EVENT,
    EVENT_TRANSFORM,
    EVENT_TYPE,
    INTEGRATION_SINK,
    PING_SOURCE,
    POD,
    SERVING_SERVICE,
    SINK_BINDING,
    Key,
    Kind,
    Obj,
)
from penstock.settings import Settings
from penstock.sources.ticks import Changes, TickNotes
from tests.unit.controllers.memory_plane import ControlPlane, Starter


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(data_dir=tmp_path_factory.mktemp("data"))


def source(name: str = "p", **spec: Any) -> Obj:
    sink = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"sink": sink, **spec}}


DEPLOYMENT = Kind("apps/v1", "Deployment")


def deployment(name: str = "d", **labels: str) -> Obj:
    containers = [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]
    metadata = {"name": name, "namespace": "ns", "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}}


def binding(**subject: Any) -> Obj:
    spec = {"sink": {"uri": "http://sink"}, "ceOverrides": {"extensions": {"shop": "north"}}}
    subject = {"apiVersion": "apps/v1", "kind": "Deployment", **subject}
    return {"metadata": {"name": "sb", "namespace": "ns"}, "spec": {**spec, "subject": subject}}


def environment(plane: ControlPlane, name: str = "d") -> dict[str, str]:
    obj = plane.api.get(DEPLOYMENT, "ns", name) or {}
    return {one["name"]: one["value"] for one in obj["spec"]["template"]["spec"]["containers"][0].get("env", [])}


BROKER_B = {"metadata": {"name": "b", "namespace": "ns"}}


async def test_a_pingsource_is_ready_as_soon_as_its_sink_has_an_address(plane: ControlPlane) -> None:
    plane.api.apply(PING_SOURCE, source())
    await plane.until(lambda: plane.condition(PING_SOURCE, "p", "SinkProvided").get("status") == "False")
    missing = plane.condition(PING_SOURCE, "p", "SinkProvided")
    assert missing["reason"] == "NotFound"
    plane.api.apply(BROKER, BROKER_B)
    await plane.until(lambda: plane.ready(PING_SOURCE, "p"))
    status = (plane.api.get(PING_SOURCE, "ns", "p") or {})["status"]
    assert status["sinkUri"].endswith("/ns/b")
    assert status["ceAttributes"][0]["type"] == "dev.knative.sources.ping"


async def test_missed_ticks_are_told_in_an_event(start: Starter, settings: Settings) -> None:
    first = await start()
    first.api.apply(BROKER, BROKER_B)
    uid = first.api.apply(PING_SOURCE, source(schedule="0 * * * *"))["metadata"]["uid"]
    await first.until(lambda: first.ready(PING_SOURCE, "p"))
    notes = TickNotes(settings.data_dir / "sources.db")
    await first.until(lambda: uid in notes.load())
    await first.stop()
    notes.write(Changes(settled={uid: replace(notes.load()[uid], last=int(time.time()) - 3 * 3600)}))
    notes.close()
    second = await start()
    await second.until(lambda: any(e["reason"] == "TicksMissed" for e in second.api.all(EVENT).values()))


async def test_a_deleted_pingsource_is_forgotten(plane: ControlPlane, settings: Settings) -> None:
    plane.api.apply(BROKER, BROKER_B)
    plane.api.apply(PING_SOURCE, source())
    await plane.until(lambda: plane.ready(PING_SOURCE, "p"))
    notes = TickNotes(settings.data_dir / "sources.db")
    await plane.until(lambda: bool(notes.load()))
    plane.api.remove(PING_SOURCE, Key("ns", "p"))
    await plane.until(lambda: not notes.load())
    notes.close()


BOUND = {"A": "1", "K_SINK": "http://sink", "K_CE_OVERRIDES": '{"extensions":{"shop":"north"}}'}


async def test_a_sinkbinding_tells_its_subject_the_sink_and_takes_it_back(plane: ControlPlane) -> None:
    plane.api.apply(SINK_BINDING, binding(name="d"))
    await plane.until(lambda: plane.condition(SINK_BINDING, "sb", "SinkBindingAvailable").get("status") == "False")
    missing = plane.condition(SINK_BINDING, "sb", "SinkBindingAvailable")
    assert (missing["reason"], missing["message"]) == ("SubjectMissing", 'deployments.apps "d" not found')
    plane.api.apply(DEPLOYMENT, deployment())
    await plane.until(lambda: plane.ready(SINK_BINDING, "sb") and environment(plane) == BOUND)
    plane.api.remove(SINK_BINDING, Key("ns", "sb"))
    await plane.until(lambda: environment(plane) == {"A": "1"} and plane.api.get(SINK_BINDING, "ns", "sb") is None)


async def test_a_sinkbinding_by_labels_binds_what_comes_later_too(plane: ControlPlane) -> None:
    plane.api.apply(SINK_BINDING, binding(selector={"matchLabels": {"app": "shop"}}))
    await plane.until(lambda: plane.ready(SINK_BINDING, "sb"))
    plane.api.apply(DEPLOYMENT, deployment("one", app="shop"))
    plane.api.apply(DEPLOYMENT, deployment("other", app="office"))
    await plane.until(lambda: environment(plane, "one") == BOUND)
    await plane.settled()
    assert environment(plane, "other") == {"A": "1"}


async def test_a_subject_of_a_kind_that_is_not_served_is_told(plane: ControlPlane) -> None:
    plane.api.unserved.add(DEPLOYMENT)
    plane.api.apply(SINK_BINDING, binding(name="d"))
    await plane.until(lambda: plane.condition(SINK_BINDING, "sb").get("reason") == "SubjectUnavailable")
    assert not plane.ready(SINK_BINDING, "sb")


async def test_a_containersource_is_a_deployment_that_knows_its_sink(plane: ControlPlane) -> None:
    template = {"spec": {"containers": [{"image": "heartbeats"}]}}
    plane.api.apply(CONTAINER_SOURCE, source("hearts", template=template))
    await plane.until(lambda: plane.condition(CONTAINER_SOURCE, "hearts", "SinkBindingReady").get("status") == "False")
    assert plane.api.get(DEPLOYMENT, "ns", "hearts-deployment") is None
    plane.api.apply(BROKER, BROKER_B)
    await plane.until(lambda: plane.api.get(DEPLOYMENT, "ns", "hearts-deployment"))
    await plane.until(lambda: environment(plane, "hearts-deployment").get("K_SINK", "").endswith("/ns/b"))
    made = plane.api.get(DEPLOYMENT, "ns", "hearts-deployment") or {}
    assert made["spec"]["selector"]["matchLabels"]["sources.knative.dev/containerSource"] == "hearts"
    await plane.until(lambda: plane.condition(CONTAINER_SOURCE, "hearts", "SinkBindingReady")["status"] == "True")
    await plane.settled()
    changed = {"spec": {"containers": [{"image": "heartbeats:2"}]}}
    plane.api.apply(CONTAINER_SOURCE, source("hearts", template=changed))
    await plane.until(
        lambda: (
            "heartbeats:2" in str(plane.api.get(DEPLOYMENT, "ns", "hearts-deployment"))
            and "K_SINK" in environment(plane, "hearts-deployment")
        )
    )


@pytest.mark.parametrize(
    ("kind", "spec", "name"),
    [
        (EVENT_TRANSFORM, {"jsonata": {"expression": "$"}, "sink": {"uri": "http://own"}}, "x-jsonata"),
        (INTEGRATION_SINK, {"log": {}}, "x-deployment"),
        (SERVING_SERVICE, {"template": {"spec": {"containers": [{"image": "event_display"}]}}}, "x-deployment"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
async def test_a_binding_and_the_owner_of_a_deployment_do_not_undo_what_the_other_writes(
    plane: ControlPlane, kind: Kind, spec: Obj, name: str
) -> None:
    plane.api.apply(kind, {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec})
    made = await plane.until(lambda: plane.api.get(DEPLOYMENT, "ns", name))
    plane.api.apply(SINK_BINDING, binding(name=name))
    await plane.until(lambda: plane.ready(SINK_BINDING, "sb"))
    await plane.settled()
    assert (plane.api.get(DEPLOYMENT, "ns", name) or {})["spec"] == made["spec"]


PODS = {"resources": [{"apiVersion": "v1", "kind": "Pod"}]}


async def test_an_apiserversource_is_ready_when_it_watches(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, BROKER_B)
    plane.api.apply(API_SERVER_SOURCE, source("s", **PODS))
    await plane.until(lambda: plane.ready(API_SERVER_SOURCE, "s"))
    status = (plane.api.get(API_SERVER_SOURCE, "ns", "s") or {})["status"]
    assert status["namespaces"] == ["ns"]
    assert status["ceAttributes"][0] == {"type": "dev.knative.apiserver.ref.add", "source": "https://api"}
    await plane.settled()


async def test_an_account_that_may_not_watch_is_told_until_it_may(plane: ControlPlane) -> None:
    denied = ("system:serviceaccount:ns:default", POD)
    plane.api.denied.add(denied)
    plane.api.apply(BROKER, BROKER_B)
    plane.api.apply(API_SERVER_SOURCE, source("s", **PODS))
    await plane.until(lambda: plane.condition(API_SERVER_SOURCE, "s", "SufficientPermissions").get("status") == "False")

    def told() -> list[str]:
        found = plane.api.all(EVENT).values()
        return [one["reason"] for one in found if "cannot get, list, watch" in one["message"]]

    await plane.until(told)
    assert plane.condition(API_SERVER_SOURCE, "s", "SufficientPermissions")["message"] == (
        "User system:serviceaccount:ns:default cannot "
        'get, list, watch resource "pods" in API group "" in Namespace "ns"'
    )
    assert told() == ["NotReady"]
    plane.api.denied.clear()
    await plane.until(lambda: plane.ready(API_SERVER_SOURCE, "s"))


async def test_namespaces_are_chosen_by_their_labels(plane: ControlPlane) -> None:
    for name, labels in (("one", {"env": "test"}), ("two", {})):
        plane.api.apply(Kind("v1", "Namespace"), {"metadata": {"name": name, "labels": labels}})
    plane.api.apply(BROKER, BROKER_B)
    selector = {"matchLabels": {"env": "test"}}
    plane.api.apply(API_SERVER_SOURCE, source("s", **PODS, namespaceSelector=selector))

    def watched() -> list[str]:
        return ((plane.api.get(API_SERVER_SOURCE, "ns", "s") or {}).get("status") or {}).get("namespaces") or []

    await plane.until(lambda: watched() == ["one"])
    plane.api.apply(Kind("v1", "Namespace"), {"metadata": {"name": "two", "labels": {"env": "test"}}})
    await plane.until(lambda: watched() == ["one", "two"])


def described(plane: ControlPlane) -> set[tuple[str, str]]:
    """Types and places of the EventTypes that there are."""
    return {
        (one["spec"]["attributes"][0]["value"].rpartition("dev.knative.")[2], one["spec"]["reference"]["name"])
        for one in plane.api.all(EVENT_TYPE).values()
    }


async def test_what_a_source_sends_is_described_by_eventtypes(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, BROKER_B)
    plane.api.apply(PING_SOURCE, source())
    plane.api.apply(API_SERVER_SOURCE, source("s", **PODS))
    kinds = {f"apiserver.ref.{change}" for change in ("add", "delete", "update")}
    await plane.until(lambda: described(plane) == {("sources.ping", "b"), *((kind, "b") for kind in kinds)})
    await plane.settled()
    plane.api.apply(BROKER, {"metadata": {"name": "other", "namespace": "ns"}})
    elsewhere = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "other"}}
    plane.api.apply(PING_SOURCE, source(sink=elsewhere))
    plane.api.apply(API_SERVER_SOURCE, source("s", **PODS, sink={"uri": "http://sink"}))
    await plane.until(lambda: described(plane) == {("sources.ping", "other")})
    plane.api.remove(PING_SOURCE, Key("ns", "p"))
    await plane.until(lambda: described(plane) == set())
    await plane.settled()
