"""Jobs, Deployments and EndpointSlices over an API in memory: what is made, counted and cleared away."""

from __future__ import annotations

from typing import Any

from penstock.kube.kinds import (
    DEPLOYMENT,
    ENDPOINT_SLICE,
    JOB,
    POD,
    REPLICA_SET,
    SERVICE,
    Key,
    Obj,
)
from penstock.runtime.times import rfc3339
from tests.unit.controllers.memory_plane import ControlPlane, Starter

CONTAINER = {"name": "main", "image": "x"}


def job(**spec: Any) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    body = {"parallelism": 2, "completions": 2, "backoffLimit": 6, "template": template}
    return {"metadata": {"name": "j", "namespace": "ns"}, "spec": body | spec}


def deployment(image: str = "a", replicas: int = 2) -> Obj:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER | {"image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}


def change(plane: ControlPlane, wanted: Obj) -> None:
    plane.api.apply(DEPLOYMENT, (plane.api.get(DEPLOYMENT, "ns", "web") or {}) | {"spec": wanted["spec"]})


def set_phase(plane: ControlPlane, phase: str, ip: str = "") -> None:
    """What the node would do: all Pods that are not over become so."""
    for pod in plane.api.all(POD).values():
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339()}
            pod["status"] = {"phase": phase, "conditions": [ready] if phase == "Running" else [], "podIP": ip}
            plane.api.apply(POD, pod)


async def test_a_job_makes_its_pods_once_and_completes(start: Starter) -> None:
    plane = await start()
    plane.api.apply(JOB, job())
    await plane.until(lambda: len(plane.api.all(POD)) == 2)
    await plane.settled()
    plane = await start()  # a new process sees the Pods before it makes any
    await plane.settled()
    assert len(plane.api.all(POD)) == 2
    set_phase(plane, "Succeeded")
    await plane.until(lambda: plane.condition(JOB, "j", "Complete").get("status") == "True")
    status = (plane.api.get(JOB, "ns", "j") or {})["status"]
    assert (status["succeeded"], status["active"]) == (2, 0)
    plane.api.remove(JOB, Key("ns", "j"))
    await plane.until(lambda: not plane.api.all(POD))


async def test_a_pod_that_is_gone_is_replaced(plane: ControlPlane) -> None:
    plane.api.apply(DEPLOYMENT, deployment())
    await plane.until(lambda: len(plane.api.all(POD)) == 2)
    await plane.settled()
    victim = next(iter(plane.api.all(POD)))
    plane.api.remove(POD, victim)
    await plane.until(lambda: len(plane.api.all(POD)) == 2 and victim not in plane.api.all(POD))


async def test_a_new_template_takes_the_place_of_the_old(plane: ControlPlane) -> None:
    plane.api.apply(DEPLOYMENT, deployment("a"))
    await plane.until(lambda: len(plane.api.all(POD)) == 2)
    set_phase(plane, "Running")
    await plane.until(lambda: plane.condition(DEPLOYMENT, "web", "Available").get("status") == "True")
    change(plane, deployment("b"))

    def images() -> list[str]:
        set_phase(plane, "Running")
        return [pod["spec"]["containers"][0]["image"] for pod in plane.api.all(POD).values()]

    await plane.until(lambda: images() == ["b", "b"])
    assert len(plane.api.all(REPLICA_SET)) == 2
    held = plane.api.get(DEPLOYMENT, "ns", "web") or {}
    assert held["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    plane.api.remove(DEPLOYMENT, Key("ns", "web"))
    await plane.until(lambda: not plane.api.all(POD))


async def test_a_service_has_endpointslices_of_its_ready_pods(plane: ControlPlane) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    plane.api.apply(SERVICE, {"metadata": {"name": "web", "namespace": "ns"}, "spec": spec})
    plane.api.apply(DEPLOYMENT, deployment(replicas=1))
    await plane.until(lambda: plane.api.all(POD))
    set_phase(plane, "Running", "127.66.1.1")
    await plane.until(lambda: plane.api.all(ENDPOINT_SLICE))
    (found,) = plane.api.all(ENDPOINT_SLICE).values()
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["endpoints"][0]["addresses"] == ["127.66.1.1"]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    change(plane, deployment(replicas=0))
    await plane.until(lambda: not plane.api.all(ENDPOINT_SLICE))
