"""Serving Services over an API in memory: their parts, their readiness, and as a destination."""

from __future__ import annotations

from typing import Any

from penstock.contract.routes import Route
from penstock.kube.kinds import BROKER, DEPLOYMENT, SERVICE, SERVING_SERVICE, TRIGGER, Key, Obj
from tests.unit.controllers.memory_plane import ControlPlane


def named(name: str, **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, **body}


def kservice(image: str = "event_display") -> Obj:
    return named("hello", spec={"template": {"spec": {"containers": [{"image": image}]}}})


async def run_pod(plane: ControlPlane, image: str = "event_display") -> None:
    await plane.run_pod(lambda pod: pod["spec"]["containers"][0]["image"] == image)


async def test_a_service_becomes_ready_with_its_deployment_and_can_be_subscribed(plane: ControlPlane) -> None:
    plane.api.apply(SERVING_SERVICE, kservice())
    plane.api.apply(BROKER, named("b"))
    reference = {"apiVersion": SERVING_SERVICE.api_version, "kind": SERVING_SERVICE.kind, "name": "hello"}
    plane.api.apply(TRIGGER, named("t", spec={"broker": "b", "subscriber": {"ref": reference}}))
    await plane.until(
        lambda: plane.api.get(DEPLOYMENT, "ns", "hello-deployment") and plane.api.get(SERVICE, "ns", "hello")
    )
    assert not plane.ready(SERVING_SERVICE, "hello")
    await run_pod(plane)
    await plane.until(lambda: plane.ready(SERVING_SERVICE, "hello") and plane.ready(TRIGGER, "t"))
    [route] = [record for record in plane.records().values() if isinstance(record, Route)]
    assert route.subscriber is not None
    assert route.subscriber.url == "http://hello.ns.svc.cluster.local"
    await plane.settled()
    version = plane.api.version
    plane.context.tracker.resync()
    await plane.settled()
    assert plane.api.version == version, plane.api.journal[-5:]


async def test_another_image_is_rolled_out_as_the_next_revision(plane: ControlPlane) -> None:
    plane.api.apply(SERVING_SERVICE, kservice())
    await plane.until(lambda: plane.api.get(DEPLOYMENT, "ns", "hello-deployment"))
    await run_pod(plane)
    await plane.until(lambda: plane.ready(SERVING_SERVICE, "hello"))
    plane.api.apply(SERVING_SERVICE, kservice("other"))

    def image() -> str:
        held = plane.api.get(DEPLOYMENT, "ns", "hello-deployment") or {}
        return str(held["spec"]["template"]["spec"]["containers"][0]["image"])

    await plane.until(lambda: image() == "other")
    await plane.until(lambda: not plane.ready(SERVING_SERVICE, "hello"))
    await run_pod(plane, "other")
    await plane.until(lambda: plane.ready(SERVING_SERVICE, "hello"))
    status = (plane.api.get(SERVING_SERVICE, "ns", "hello") or {})["status"]
    assert status["latestReadyRevisionName"] == "hello-00002"


async def test_a_service_of_the_same_name_is_left_alone(plane: ControlPlane) -> None:
    plane.api.apply(SERVICE, named("hello", spec={"ports": [{"port": 80}]}))
    plane.api.apply(SERVING_SERVICE, kservice())
    found = await plane.until(
        lambda: (c := plane.condition(SERVING_SERVICE, "hello", "RoutesReady")).get("status") == "False" and c
    )
    assert found["message"] == 'There is an existing Service "hello" that we do not own.'
    assert "selector" not in (plane.api.get(SERVICE, "ns", "hello") or {})["spec"]


async def test_a_deleted_service_takes_its_parts_along(plane: ControlPlane) -> None:
    plane.api.apply(SERVING_SERVICE, kservice())
    await plane.until(lambda: plane.api.get(SERVICE, "ns", "hello"))
    plane.api.remove(SERVING_SERVICE, Key("ns", "hello"))
    await plane.until(lambda: not plane.api.all(DEPLOYMENT) and not plane.api.all(SERVICE))
