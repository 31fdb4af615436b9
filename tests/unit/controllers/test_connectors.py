"""IntegrationSources and IntegrationSinks over an API in memory: their parts come, follow their specs, and go."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from penstock.kube.kinds import (
    CONTAINER_SOURCE,
    DEPLOYMENT,
    INTEGRATION_SINK,
    INTEGRATION_SOURCE,
    SERVICE,
    Key,
    Kind,
    Obj,
)
from tests.unit.controllers.memory_plane import ControlPlane

AWS = {"s3": {"arn": "a", "region": "r"}, "auth": {"secret": {"ref": {"name": "s"}}}}
SINK = {"uri": "http://127.0.0.1:1/"}


def named(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def status(plane: ControlPlane, kind: Kind, name: str = "x") -> Obj:
    return dict((plane.api.get(kind, "ns", name) or {}).get("status") or {})


def variables(plane: ControlPlane, kind: Kind, name: str) -> dict[str, str]:
    pod = ((plane.api.get(kind, "ns", name) or {}).get("spec") or {}).get("template", {}).get("spec") or {}
    return {one["name"]: one.get("value", "") for container in pod.get("containers") or [] for one in container["env"]}


async def test_a_source_is_ready_when_its_container_source_is_and_goes_with_what_it_asks_for(
    plane: ControlPlane,
) -> None:
    sink = {**SINK, "CACerts": "pem"}
    plane.api.apply(INTEGRATION_SOURCE, named("x", timer={"message": "one"}, sink=sink))
    await plane.run_pod(lambda pod: pod["spec"]["containers"][0]["image"] == "timer-source")
    await plane.until(lambda: plane.ready(INTEGRATION_SOURCE, "x"))
    assert (status(plane, INTEGRATION_SOURCE)["sinkUri"], status(plane, INTEGRATION_SOURCE)["sinkCACerts"]) == (
        "http://127.0.0.1:1/",
        "pem",
    )
    plane.api.apply(INTEGRATION_SOURCE, named("x", timer={"message": "two"}, sink=SINK))
    told = partial(variables, plane, DEPLOYMENT, "x-containersource-deployment")
    await plane.until(lambda: told().get("CAMEL_KAMELET_TIMER_SOURCE_MESSAGE") == "two")
    await plane.until(lambda: "sinkCACerts" not in status(plane, INTEGRATION_SOURCE))
    plane.api.apply(INTEGRATION_SOURCE, named("x", aws=AWS, sink=SINK))
    await plane.until(lambda: not plane.api.all(CONTAINER_SOURCE))
    await plane.until(lambda: plane.condition(INTEGRATION_SOURCE, "x").get("reason") == "ConnectorNotSupported")


async def test_a_source_has_a_token_for_a_sink_that_asks_for_one(plane: ControlPlane) -> None:
    plane.switch(authentication_oidc="enabled")
    plane.api.apply(INTEGRATION_SOURCE, named("x", timer={"message": "m"}, sink={**SINK, "audience": "a"}))
    told = partial(variables, plane, CONTAINER_SOURCE, "x-containersource")
    await plane.until(lambda: told().get("CAMEL_KNATIVE_CLIENT_OIDC_ENABLED") == "true")
    await plane.until(lambda: (status(plane, INTEGRATION_SOURCE).get("auth") or {}).get("serviceAccountName"))


async def test_a_container_source_of_the_same_name_is_left_alone(plane: ControlPlane) -> None:
    own = named("x-containersource", template={"spec": {"containers": [{"name": "c", "image": "i"}]}}, sink=SINK)
    plane.api.apply(CONTAINER_SOURCE, own)
    plane.api.apply(INTEGRATION_SOURCE, named("x", timer={"message": "m"}, sink=SINK))
    await plane.until(lambda: plane.condition(INTEGRATION_SOURCE, "x").get("reason") == "ContainerSourceFailed")
    assert (plane.api.get(CONTAINER_SOURCE, "ns", "x-containersource") or {})["spec"] == own["spec"]


async def test_a_sink_has_an_address_when_it_runs_and_goes_with_what_it_asks_for(plane: ControlPlane) -> None:
    plane.api.apply(INTEGRATION_SINK, named("x", log={"level": "INFO"}))
    await plane.until(lambda: plane.api.get(SERVICE, "ns", "x-deployment") and status(plane, INTEGRATION_SINK))
    assert "address" not in status(plane, INTEGRATION_SINK)
    await plane.run_pod(lambda pod: pod["spec"]["containers"][0]["image"] == "log-sink")
    await plane.until(lambda: plane.ready(INTEGRATION_SINK, "x"))
    assert status(plane, INTEGRATION_SINK)["address"]["url"] == "http://x-deployment.ns.svc.cluster.local"
    plane.api.apply(INTEGRATION_SINK, named("x", aws=AWS))
    await plane.until(lambda: not plane.api.all(DEPLOYMENT) and not plane.api.all(SERVICE))
    await plane.until(lambda: plane.condition(INTEGRATION_SINK, "x").get("reason") == "ConnectorNotSupported")


@pytest.mark.parametrize("guarded", [True, False])
async def test_tokens_are_asked_for_in_front_of_a_sink_where_they_are_enabled(
    plane: ControlPlane, guarded: bool
) -> None:
    if guarded:
        plane.switch(authentication_oidc="enabled")
    plane.api.apply(INTEGRATION_SINK, named("x", log={}))
    await plane.run_pod(lambda pod: pod["spec"]["containers"][0]["image"] == "log-sink")
    await plane.until(lambda: plane.ready(INTEGRATION_SINK, "x"))
    audience = "sinks.knative.dev/integrationsink/ns/x" if guarded else None
    assert status(plane, INTEGRATION_SINK)["address"].get("audience") == audience
    assert (Key("ns", "x-deployment") in plane.context.service_guards) is guarded
    plane.api.remove(INTEGRATION_SINK, Key("ns", "x"))
    await plane.until(lambda: not plane.context.service_guards and not plane.api.all(DEPLOYMENT))
