"""SinkBindings and ContainerSources: what is accepted, what is refused, and what a Pod template gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.containersource import ContainerObservation, child_name, is_within, status_of
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.metadata import selector_matches
from penstock.resources.sinkbinding import bound, bundles_in, environment_of, token_in, unbound

Obj = dict[str, Any]
Admit = Callable[..., Obj]
Refusal = Callable[..., str]

SINK = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "default"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}


def binding(subject: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": "sb", "namespace": "ns"}, "spec": {"sink": SINK, "subject": subject, **spec}}


def source(*containers: Obj, **spec: Any) -> Obj:
    template = {"spec": {"containers": list(containers)}}
    return {"metadata": {"name": "cs", "namespace": "ns"}, "spec": {"sink": SINK, "template": template, **spec}}


def test_subject_and_sink_are_in_the_bindings_namespace(admit: Admit) -> None:
    spec = admit("SinkBinding", binding({**DEPLOYMENT, "name": "d"}), namespace="ns")["spec"]
    assert (spec["subject"]["namespace"], spec["sink"]["ref"]["namespace"]) == ("ns", "ns")


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ({}, "missing field(s): spec.subject.apiVersion, spec.subject.kind"),
        (DEPLOYMENT, "expected exactly one, got neither: spec.subject.name, spec.subject.selector"),
        (
            {**DEPLOYMENT, "name": "d", "selector": {}},
            "expected exactly one, got both: spec.subject.name, spec.subject.selector",
        ),
        ({**DEPLOYMENT, "name": "d", "namespace": "other"}, "invalid value: other: spec.subject.namespace"),
        ({**DEPLOYMENT, "name": "No_Label"}, "invalid value: a lowercase RFC 1123 label must consist"),
        (
            {**DEPLOYMENT, "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            'invalid value: "Near" is not a valid label selector operator: spec.subject.selector',
        ),
    ],
)
def test_a_subject_that_cannot_be_bound_is_refused(refusal: Refusal, subject: Obj, complaint: str) -> None:
    assert complaint in refusal("SinkBinding", binding(subject), namespace="ns")


def test_containers_get_names(admit: Admit) -> None:
    stored = admit("ContainerSource", source({"image": "a"}, {"image": "b", "name": "mine"}))
    assert [one["name"] for one in stored["spec"]["template"]["spec"]["containers"]] == ["cs-0", "mine"]


def test_a_containersource_without_containers_or_images_is_refused(refusal: Refusal) -> None:
    assert "missing field(s): spec.containers" in refusal("ContainerSource", source())
    assert "missing field(s): spec.containers[0].image" in refusal("ContainerSource", source({"name": "a"}))
    assert "spec.sink.ref, spec.sink.uri" in refusal("ContainerSource", source({"image": "a"}, sink={}))


def test_variables_replace_their_predecessors_and_go_without_a_trace() -> None:
    plain = {"spec": {"template": {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}}}}
    first = bound(plain, environment_of(ResolvedAddress("http://one"), None))
    second = bound(first, environment_of(ResolvedAddress("http://two", "PEM"), {"extensions": {"b": "2", "a": "1"}}))
    pod = second["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"] == pod["initContainers"][0]["env"]
    assert pod["containers"][0]["env"] == [
        {"name": "K_SINK", "value": "http://two"},
        {"name": "K_CA_CERTS", "value": "PEM"},
        {"name": "K_CE_OVERRIDES", "value": '{"extensions":{"a":"1","b":"2"}}'},
    ]
    assert unbound(second) == plain
    assert unbound(plain) is plain
    assert bound({"spec": None}, [{"name": "K_SINK", "value": "x"}]) == {"spec": None}


def test_bundles_are_a_volume_of_every_container_and_go_without_a_trace() -> None:
    scratch = {"name": "scratch", "emptyDir": {}}
    mount = {"name": "scratch", "mountPath": "/tmp/scratch"}
    containers = {"containers": [{"name": "a", "volumeMounts": [mount]}], "initContainers": [{"name": "b"}]}
    plain = {"spec": {"template": {"spec": {**containers, "volumes": [scratch]}}}}
    first = bound(plain, [], ["old"])
    second = bound(first, [], ["two", "one"])
    pod = second["spec"]["template"]["spec"]
    ours = {"name": "kne-bundle-volume", "readOnly": True, "mountPath": "/knative-custom-certs"}
    assert pod["containers"][0]["volumeMounts"] == [mount, ours]
    assert pod["initContainers"][0]["volumeMounts"] == [ours]
    sources = [{"configMap": {"name": "one"}}, {"configMap": {"name": "two"}}]
    projected = {"sources": sources, "defaultMode": 420}
    assert pod["volumes"] == [scratch, {"name": "kne-bundle-volume", "projected": projected}]
    assert bound(second, [], ["one", "two"]) is second
    assert (bundles_in(second), bundles_in(plain)) == (["one", "two"], [])
    guarded = bound(second, [], ["one", "two"], "token")
    assert (token_in(guarded), bundles_in(guarded), token_in(second)) == ("token", ["one", "two"], "")
    assert bound(guarded, [], ["one", "two"]) == second
    assert unbound(second) == plain
    assert bound({"spec": None}, [], ["one"]) == {"spec": None}


def test_empty_lists_of_a_template_are_left_as_they_are() -> None:
    container = {"name": "a", "env": [], "volumeMounts": []}
    plain = {"spec": {"template": {"spec": {"containers": [container], "volumes": []}}}}
    assert unbound(plain) is plain


def test_what_is_wanted_may_be_there_with_more() -> None:
    assert is_within({"a": [{"b": 1}], "c": None}, {"a": [{"b": 1, "d": 2}, {"e": 3}]})
    assert not is_within({"a": [{"b": 1}, {"f": 1}]}, {"a": [{"b": 1}]})
    assert not is_within({"image": "2"}, {"image": "1"})


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (None, ("Unknown", "DeploymentUnavailable")),
        ({"type": "Available", "status": "False", "reason": "TooFew"}, ("False", "TooFew")),
        ({"type": "Available", "status": "True", "reason": "Enough"}, ("True", None)),
    ],
)
def test_a_containersource_is_as_ready_as_its_parts(available: Obj | None, expected: tuple[str, str | None]) -> None:
    ready = {"status": {"sinkUri": "http://sink", "conditions": [{"type": "Ready", "status": "True"}]}}
    deployment = {"status": {"conditions": [available]}} if available else None
    status = status_of(source(), ContainerObservation("cs-deployment", ready, deployment), "2026-01-01T00:00:00Z")
    found = {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]}
    assert found["ReceiveAdapterReady"] == found["Ready"] == expected
    assert status["sinkUri"] == "http://sink"


def test_long_names_are_shortened_as_knative_does() -> None:
    assert child_name("short", "-deployment") == "short-deployment"
    assert len(child_name("x" * 60, "-deployment")) == 63


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [("In", ["x"], True), ("NotIn", ["x"], False), ("Exists", None, True), ("DoesNotExist", None, False)],
)
def test_label_expressions(operator: str, values: list[str] | None, expected: bool) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}
    assert selector_matches(selector, {"a": "x"}) is expected
    assert selector_matches({}, None)
