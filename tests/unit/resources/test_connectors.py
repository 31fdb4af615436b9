"""IntegrationSources and IntegrationSinks: validation, the parts they are made of, and their status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.destinations import ResolvedAddress
from penstock.resources.integrationsink import IntegrationSink, IntegrationSinkObservation
from penstock.resources.integrationsink import status_of as sink_status
from penstock.resources.integrationsource import IntegrationSource
from penstock.resources.integrationsource import status_of as source_status

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
AUTH = {"secret": {"ref": {"name": "s"}}}
TIMER = {"period": 2000, "message": "hello", "contentType": "text/plain"}
SINK = {"uri": "http://sink"}
PLAIN = ResolvedAddress("http://x-deployment.ns.svc.cluster.local")
SECURE = ResolvedAddress("https://x-deployment.ns.svc.cluster.local", "pem")


def made(kind: str, **spec: Any) -> Obj:
    group = "sources.knative.dev" if kind == "IntegrationSource" else "sinks.knative.dev"
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "generation": 1}
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def variables(pod: Obj) -> dict[str, str]:
    [container] = pod["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"]}


def told(status: Obj) -> dict[str, tuple[str, str | None]]:
    return {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("IntegrationSource", {}, "at least one source type must be specified: spec.spec"),
        ("IntegrationSource", {"aws": {"auth": AUTH}}, "at least one source type must be specified: spec.spec"),
        (
            "IntegrationSource",
            {"timer": TIMER, "aws": {"s3": {}}},
            "only one source type can be set: spec.spec",
        ),
        (
            "IntegrationSource",
            {"aws": {"ddbStreams": {}}},
            "missing field(s): spec.aws.auth.secret.ref.name, spec.aws.ddb-streams.region, spec.aws.ddb-streams.table",
        ),
        ("IntegrationSink", {}, "at least one sink type must be specified: spec.spec"),
        ("IntegrationSink", {"log": {}, "aws": {"sns": {}}}, "only one sink type can be set: spec.spec"),
        (
            "IntegrationSink",
            {"aws": {"sqs": {"arn": "a"}, "auth": {"serviceAccountName": "a"}}},
            "missing field(s): spec.aws.sqs.region",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_knatives_words(
    refusal: Callable[..., str], kind: str, spec: Obj, message: str
) -> None:
    assert refusal(kind, made(kind, **spec)) == DENIED + message


def test_names_in_the_template_of_a_source_are_those_of_pods(
    admit: Callable[..., Obj], refusal: Callable[..., str]
) -> None:
    pod = {"volumes": [{"name": "../../pki", "emptyDir": {}}], "containers": [{"name": "of", "image": "nobody"}]}
    obj = made("IntegrationSource", timer=TIMER, sink=SINK, template={"spec": pod})
    assert "invalid value: ../../pki: spec.template.spec.volumes[0].name" in refusal("IntegrationSource", obj)
    assert admit("IntegrationSource", obj, obj), "what is stored and does not change may be older than this rule"
    init = [{"name": "a/b", "image": "x", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "../x"}}}]}]
    obj["spec"]["template"] = {"spec": {"initContainers": init}}
    complaints = refusal("IntegrationSource", obj)
    assert "spec.template.spec.initContainers[0].name" in complaints
    assert "spec.template.spec.initContainers[0].env[0].valueFrom.secretKeyRef.name" in complaints


def test_what_knative_takes_is_taken(admit: Callable[..., Obj]) -> None:
    admit("IntegrationSource", made("IntegrationSource", timer=TIMER, sink=SINK))
    admit("IntegrationSink", made("IntegrationSink", log={}))
    queue = {"sqs": {"arn": "a", "region": "r"}, "auth": AUTH}
    for kind in ("IntegrationSource", "IntegrationSink"):
        admit(kind, made(kind, aws=queue))


def test_a_source_is_made_of_a_container_source_that_runs_the_timer() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"serviceAccountName": "own", "containers": [{"name": "c"}]},
    }
    overrides = {"extensions": {"room": "cellar"}}
    wanted = IntegrationSource.read(
        made(
            "IntegrationSource", timer={**TIMER, "repeatCount": 0}, sink=SINK, template=template, ceOverrides=overrides
        )
    )
    part = wanted.container_source()
    assert (part["kind"], part["metadata"]["name"]) == ("ContainerSource", "x-containersource")
    assert (part["spec"]["sink"], part["spec"]["ceOverrides"]) == (SINK, overrides)
    pod = part["spec"]["template"]
    assert pod["metadata"]["labels"] == {"a": "b", "app.kubernetes.io/name": "x"}
    assert pod["spec"]["serviceAccountName"] == "own"
    assert variables(pod["spec"]) == {
        "CAMEL_KNATIVE_CLIENT_SSL_ENABLED": "true",
        "CAMEL_KNATIVE_CLIENT_SSL_CERT_PATH": "/knative-custom-certs/knative-eventing-bundle.pem",
        "CAMEL_KAMELET_TIMER_SOURCE_PERIOD": "2000",
        "CAMEL_KAMELET_TIMER_SOURCE_MESSAGE": "hello",
        "CAMEL_KAMELET_TIMER_SOURCE_CONTENTTYPE": "text/plain",
        "CAMEL_KAMELET_TIMER_SOURCE_REPEATCOUNT": "0",
    }
    with_token = variables(wanted.container_source(with_token=True)["spec"]["template"]["spec"])
    assert with_token["CAMEL_KNATIVE_CLIENT_OIDC_ENABLED"] == "true"


def test_a_source_says_what_its_container_source_says() -> None:
    obj = made("IntegrationSource", timer=TIMER, sink=SINK)
    fields = {"sinkUri": "http://sink", "auth": {"serviceAccountName": "a"}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "t"}
    status = source_status(obj, {"status": {**fields, "conditions": [ready]}}, None, "now")
    assert told(status) == {"ContainerSourceReady": ("True", None), "Ready": ("True", None)}
    assert {name: status[name] for name in fields} == fields
    waiting = {**ready, "status": "False", "reason": "NotFound", "message": "m"}
    assert told(source_status(obj, {"status": {"conditions": [waiting]}}, None, "now"))["Ready"] == (
        "False",
        "NotFound",
    )
    assert told(source_status(obj, None, None, "now"))["Ready"] == ("Unknown", None)
    assert told(source_status(obj, None, "refused", "now"))["Ready"] == ("False", "ContainerSourceFailed")


def test_other_connectors_are_told_to_be_not_here() -> None:
    aws = {"auth": AUTH, "s3": {"arn": "a", "region": "r"}}
    source = source_status(made("IntegrationSource", aws=aws), None, None, "now")
    sink = sink_status(made("IntegrationSink", aws=aws), IntegrationSinkObservation(None, (PLAIN,)), "now")
    for status in (source, sink):
        [ready] = [one for one in status["conditions"] if one["type"] == "Ready"]
        assert (ready["status"], ready["reason"]) == ("False", "ConnectorNotSupported")
        assert ready["message"].startswith("spec.aws.s3 is not supported by penstock")
        assert "address" not in status


@pytest.mark.parametrize(
    ("transport", "guarded", "env", "ports"),
    [
        ("disabled", False, {}, {"http": (80, 8080)}),
        ("permissive", False, {"HTTPS_SERVICE": "x-deployment"}, {"https": (443, 8443), "http": (80, 8080)}),
        (
            "strict",
            False,
            {"HTTPS_SERVICE": "x-deployment", "DISABLE_HTTP_SERVER": "true"},
            {"https": (443, 8443)},
        ),
        ("strict", True, {"HTTPS_SERVICE": "x-deployment", "DISABLE_HTTP_SERVER": "true"}, {"https": (443, 8080)}),
    ],
)
def test_a_sink_is_made_of_a_deployment_and_a_service(
    transport: Any, guarded: bool, env: dict[str, str], ports: dict[str, tuple[int, int]]
) -> None:
    wanted = IntegrationSink.read(made("IntegrationSink", log={"showHeaders": True, "marker": ""}))
    deployment, service = wanted.deployment(transport), wanted.service(transport, guarded=guarded)
    assert deployment["metadata"]["name"] == service["metadata"]["name"] == "x-deployment"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    pod = deployment["spec"]["template"]["spec"]
    assert variables(pod) == {"CAMEL_KAMELET_LOG_SINK_SHOWHEADERS": "true", **env}
    assert {one["name"]: (one["port"], one["targetPort"]) for one in service["spec"]["ports"]} == ports


RUNS = {
    "metadata": {"generation": 2},
    "spec": {"replicas": 1},
    "status": {"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1},
}


def test_a_sink_is_ready_and_has_addresses_when_it_runs() -> None:
    obj = made("IntegrationSink", log={})
    status = sink_status(obj, IntegrationSinkObservation(RUNS, (SECURE, PLAIN)), "now")
    assert told(status) == {
        "Addressable": ("True", None),
        "CertificateReady": ("True", None),
        "DeploymentReady": ("True", None),
        "EventPoliciesReady": ("True", "OIDCDisabled"),
        "Ready": ("True", None),
        "TrustBundlePropagated": ("True", None),
    }
    assert [one["name"] for one in status["addresses"]] == ["https", "http"]
    assert status["address"]["name"] == "http", "as upstream's, who knows only one address gets the one without TLS"
    assert "CertificateReady" not in told(sink_status(obj, IntegrationSinkObservation(RUNS, (PLAIN,)), "now"))


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({}, ("Unknown", "DeploymentUnavailable")),
        ({"conditions": [{"type": "Available", "status": "False", "reason": "Why"}]}, ("False", "Why")),
        ({"conditions": [{"type": "Progressing", "status": "False", "reason": "Late"}]}, ("False", "Late")),
        ({"conditions": [{"type": "Available", "status": "True"}]}, ("Unknown", "DeploymentRollingOut")),
    ],
)
def test_a_sink_says_what_it_waits_for(changed: Obj, finding: tuple[str, str]) -> None:
    waiting = {**RUNS, "status": {"observedGeneration": 1, **changed}}
    status = sink_status(made("IntegrationSink", log={}), IntegrationSinkObservation(waiting, (PLAIN,)), "now")
    assert told(status)["DeploymentReady"] == finding
    assert ("address" in status, told(status)["Addressable"][0]) == (False, "False")
    failed = sink_status(made("IntegrationSink", log={}), IntegrationSinkObservation(None, (PLAIN,), "refused"), "now")
    assert told(failed)["DeploymentReady"] == ("False", "DeploymentFailed")
