"""Defaults, validation, parts and status of serving Services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.kservice import KService, KServiceObservation, status_of
from penstock.resources.metadata import is_subset
from penstock.resources.registry import crds

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: '


def kservice(pod: Obj | None = None, **more: Any) -> Obj:
    template = {
        "spec": {"containers": [{"image": "event_display"}]} if pod is None else pod,
        **more.pop("template", {}),
    }
    metadata = {"name": "hello", "namespace": "ns", "uid": "u", "generation": 1}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"template": template, **more},
    }


def test_the_container_and_the_traffic_are_filled_in(admit: Callable[..., Obj]) -> None:
    spec = admit("Service", kservice())["spec"]
    assert spec["traffic"] == [{"latestRevision": True, "percent": 100}]
    assert spec["template"]["spec"] == {
        "containers": [{"image": "event_display", "name": "user-container"}],
        "containerConcurrency": 0,
        "timeoutSeconds": 300,
    }


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({**kservice(), "spec": {}}, "missing field(s): spec.template"),
        (kservice({}), "missing field(s): spec.template.spec.containers"),
        (kservice({"containers": [{"name": "x"}]}), "missing field(s): spec.template.spec.containers[0].image"),
        (
            kservice(traffic=[{"revisionName": "hello-00001", "percent": 50}, {"latestRevision": True, "percent": 50}]),
            "must not set the field(s): spec.traffic\nonly the latest revision is served here, and it gets all traffic",
        ),
        (
            kservice(template={"metadata": {"name": "other"}}),
            'invalid value: "other" must have prefix "hello-": spec.template.metadata.name',
        ),
        (
            kservice({"containers": [{"image": "i", "ports": [{"containerPort": 1}, {"containerPort": 2}]}]}),
            "More than one container port is set: spec.template.spec.containers[0].ports\n"
            "Only a single port is allowed across all containers",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(refusal: Callable[..., str], obj: Obj, message: str) -> None:
    assert refusal("Service", obj) == DENIED + message


def test_its_parts_are_a_deployment_and_a_service_that_leads_to_it(admit: Callable[..., Obj]) -> None:
    pod = {"containers": [{"image": "i", "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 9000}]}]}
    wanted = KService.read(admit("Service", kservice(pod, template={"metadata": {"labels": {"team": "x"}}})))
    deployment, service = wanted.deployment(), wanted.service()
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"] == {
        "team": "x",
        "app": "hello-00001",
        "serving.knative.dev/service": "hello",
        "serving.knative.dev/configuration": "hello",
        "serving.knative.dev/configurationGeneration": "1",
        "serving.knative.dev/revision": "hello-00001",
    }
    [container] = template["spec"]["containers"]
    assert set(template["spec"]) == {"containers"}
    assert (container["name"], container["ports"][0]["containerPort"]) == ("user-container", 9000)
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "A": "b",
        "K_REVISION": "hello-00001",
        "K_CONFIGURATION": "hello",
        "K_SERVICE": "hello",
    }
    selector = {"serving.knative.dev/service": "hello"}
    assert deployment["spec"]["selector"] == {"matchLabels": selector}
    assert service["metadata"]["name"] == "hello"
    assert service["spec"]["selector"] == selector
    assert service["spec"]["ports"][0]["targetPort"] == 9000
    assert service["metadata"]["ownerReferences"][0]["kind"] == "Service"


def test_a_probe_without_a_port_means_that_of_the_container(admit: Callable[..., Obj]) -> None:
    pod = {"containers": [{"image": "i", "readinessProbe": {"tcpSocket": {"port": 0}}}]}
    [container] = KService.read(admit("Service", kservice(pod))).deployment()["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["tcpSocket"]["port"] == 8080


RUNS = {
    "metadata": {"generation": 1},
    "status": {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1},
}


def told(seen: KServiceObservation) -> dict[str, tuple[str, str | None]]:
    conditions = status_of(kservice(), seen, "now")["conditions"]
    return {one["type"]: (one["status"], one.get("reason")) for one in conditions}


def test_it_is_ready_when_its_deployment_serves() -> None:
    status = status_of(kservice(), KServiceObservation(RUNS), "now")
    url = "http://hello.ns.svc.cluster.local"
    assert (status["url"], status["address"]) == (url, {"url": url})
    assert status["latestReadyRevisionName"] == status["latestCreatedRevisionName"] == "hello-00001"
    assert status["traffic"] == [{"latestRevision": True, "percent": 100, "revisionName": "hello-00001"}]
    assert told(KServiceObservation(RUNS))["Ready"] == ("True", None)


def test_it_waits_for_its_deployment_and_says_why_it_fails() -> None:
    outdated = {**RUNS, "metadata": {"generation": 2}}
    for waiting in ({}, outdated):
        assert told(KServiceObservation(waiting)) == {
            "ConfigurationsReady": ("Unknown", None),
            "Ready": ("Unknown", None),
            "RoutesReady": ("Unknown", "RevisionMissing"),
        }
    stuck = {"status": {"conditions": [{"type": "Progressing", "status": "False", "message": "no such image."}]}}
    conditions = status_of(kservice(), KServiceObservation(stuck), "now")["conditions"]
    message = (find(conditions, "ConfigurationsReady") or {})["message"]
    assert message == 'Revision "hello-00001" failed with message: no such image.'
    taken = KServiceObservation(RUNS, service_failure="somebody else's")
    assert told(taken)["RoutesReady"] == ("False", "NotOwned")


def test_the_description_says_what_is_not_there() -> None:
    [crd] = [one for one in crds() if one["metadata"]["name"] == "services.serving.knative.dev"]
    described = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"]
    assert "no autoscaling" in described
    assert "no traffic splitting" in described
    assert crd["spec"]["names"]["shortNames"] == ["kservice", "ksvc"]


def test_defaults_of_the_server_do_not_make_an_object_differ() -> None:
    assert is_subset({"a": [{"b": 1}]}, {"a": [{"b": 1, "more": 2}], "default": 3})
    assert not is_subset({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 2}]})
    assert not is_subset({"a": 1, "b": 2}, {"a": 1})
