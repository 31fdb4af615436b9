"""Names, paths and ports of Pods, in the words of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.resources import pod_rules
from penstock.resources.admission import AdmissionContext, AdmissionDenied
from penstock.resources.pod_rules import LABEL_RULE, SUBDOMAIN_RULE, data_faults, pod_faults
from penstock.resources.registry import ADMISSION
from penstock.settings import Settings

Obj = dict[str, Any]
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
NAME, PATH = "spec.volumes[0].name", "spec.volumes[0].configMap.items[0].path"
CONTAINER = "spec.containers[0]"


def pod(**more: Any) -> Obj:
    return {"containers": [container()], **more}


def container(**more: Any) -> Obj:
    return {"name": "main", "image": "i", **more}


def volume(name: str = "v", **source: Any) -> Obj:
    return {"name": name, **(source or {"emptyDir": {}})}


def mounted(*mounts: Obj, volumes: tuple[Obj, ...] = (volume(),)) -> Obj:
    return pod(containers=[container(volumeMounts=list(mounts))], volumes=list(volumes))


def reference(kind: str, **ref: str) -> Obj:
    return pod(containers=[container(env=[{"name": "E", "valueFrom": {kind: ref}}])])


def item(path: str) -> Obj:
    return pod(volumes=[volume(configMap={"name": "c", "items": [{"key": "k", "path": path}]})])


def told(spec: Obj) -> list[str]:
    return [f"{fault.path}: {fault.text}" for fault in pod_faults(spec, "spec")]


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        (pod(volumes=[volume("~/.ssh")]), [f'{NAME}: Invalid value: "~/.ssh": {LABEL_RULE}']),
        (pod(volumes=[volume("/etc")]), [f'{NAME}: Invalid value: "/etc": {LABEL_RULE}']),
        (pod(volumes=[volume("../../../../pki")]), [f'{NAME}: Invalid value: "../../../../pki": {LABEL_RULE}']),
        (pod(volumes=[volume("a.b")]), [f'{NAME}: Invalid value: "a.b": must not contain dots']),
        (pod(volumes=[volume("a" * 64)]), [f'{NAME}: Invalid value: "{"a" * 64}": must be no more than 63 characters']),
        (pod(volumes=[volume("")]), [f"{NAME}: Required value"]),
        (pod(volumes=[volume("v"), volume("v")]), ['spec.volumes[1].name: Duplicate value: "v"']),
        (pod(volumes=[volume(secret={})]), ["spec.volumes[0].secret.secretName: Required value"]),
        (
            pod(volumes=[volume(secret={"secretName": "../../bank/secrets/db"})]),
            ["spec.volumes[0].secret.secretName: Invalid value: \"../../bank/secrets/db\": may not contain '/'"],
        ),
        (
            pod(volumes=[volume(projected={"sources": [{"configMap": {"name": ".."}}]})]),
            ["spec.volumes[0].projected.sources[0].configMap.name: Invalid value: \"..\": may not be '..'"],
        ),
        (
            pod(volumes=[volume(projected={"sources": [{"serviceAccountToken": {"path": "/t"}}]})]),
            ['spec.volumes[0].projected.path: Invalid value: "/t": must be a relative path'],
        ),
        (
            pod(volumes=[volume(projected={"sources": [{"downwardAPI": {"items": [{"path": ""}]}}]})]),
            ["spec.volumes[0].projected.sources[0].downwardAPI.path: Required value"],
        ),
        (
            pod(volumes=[volume(downwardAPI={"items": [{"path": "a/../b"}]})]),
            ["spec.volumes[0].downwardAPI.path: Invalid value: \"a/../b\": must not contain '..'"],
        ),
        (item("..a"), [f"{PATH}: Invalid value: \"..a\": must not start with '..'"]),
        (item("../a"), [f"{PATH}: Invalid value: \"../a\": must not contain '..'"]),
        (
            item("/../a"),
            [
                f'{PATH}: Invalid value: "/../a": must be a relative path',
                f"{PATH}: Invalid value: \"/../a\": must not contain '..'",
            ],
        ),
        (
            pod(containers=[container(name="../../../control")]),
            [f'{CONTAINER}.name: Invalid value: "../../../control": {LABEL_RULE}'],
        ),
        (pod(containers=[{"image": "i"}]), [f"{CONTAINER}.name: Required value"]),
        (pod(containers=[container(), container()]), ['spec.containers[1].name: Duplicate value: "main"']),
        (pod(initContainers=[container()]), ['spec.initContainers[0].name: Duplicate value: "main"']),
        (
            pod(initContainers=[container(name="/var/log/x")]),
            [f'spec.initContainers[0].name: Invalid value: "/var/log/x": {LABEL_RULE}'],
        ),
        (
            pod(containers=[container(ports=[{"name": "Web-", "containerPort": 70000}, {"hostPort": -1}])]),
            [
                f'{CONTAINER}.ports[0].name: Invalid value: "Web-": must contain only alpha-numeric characters '
                "(a-z, 0-9), and hyphens (-)",
                f'{CONTAINER}.ports[0].name: Invalid value: "Web-": must not begin or end with a hyphen',
                f"{CONTAINER}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                f"{CONTAINER}.ports[1].containerPort: Required value",
                f"{CONTAINER}.ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            pod(containers=[container(ports=[{"name": "web", "containerPort": n} for n in (80, 81)])]),
            [f'{CONTAINER}.ports[1].name: Duplicate value: "web"'],
        ),
        (
            pod(containers=[container(env=[{"name": "A=B"}, {"name": "é"}, {"name": "\n"}, {}])]),
            [
                *(
                    f'{CONTAINER}.env[{number}].name: Invalid value: "{shown}": a valid environment variable name must '
                    "consist only of printable ASCII characters other than '='"
                    for number, shown in enumerate(("A=B", "é", "\\n"))
                ),
                f"{CONTAINER}.env[3].name: Required value",
            ],
        ),
        (
            reference("secretKeyRef", name="../../bank/secrets/db", key=".."),
            [
                f'{CONTAINER}.env[0].valueFrom.secretKeyRef.name: Invalid value: "../../bank/secrets/db": '
                + SUBDOMAIN_RULE,
                f"{CONTAINER}.env[0].valueFrom.secretKeyRef.key: Invalid value: \"..\": must not be '..'",
            ],
        ),
        (
            reference("configMapKeyRef", name=""),
            [
                f'{CONTAINER}.env[0].valueFrom.configMapKeyRef.name: Invalid value: "": {SUBDOMAIN_RULE}',
                f"{CONTAINER}.env[0].valueFrom.configMapKeyRef.key: Required value",
            ],
        ),
        (
            pod(containers=[container(envFrom=[{"secretRef": {"name": "a/b"}}, {"configMapRef": {}}])]),
            [
                f'{CONTAINER}.envFrom[0].secretRef.name: Invalid value: "a/b": {SUBDOMAIN_RULE}',
                f"{CONTAINER}.envFrom[1].configMapRef.name: Required value",
            ],
        ),
        (pod(serviceAccountName="../x"), [f'spec.serviceAccountName: Invalid value: "../x": {SUBDOMAIN_RULE}']),
        (
            mounted({"name": "w", "mountPath": "/w"}, {"name": "v"}),
            [
                f'{CONTAINER}.volumeMounts[0].name: Not found: "w"',
                f"{CONTAINER}.volumeMounts[1].mountPath: Required value",
            ],
        ),
        (
            mounted({"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}),
            [f'{CONTAINER}.volumeMounts[1].mountPath: Invalid value: "/v": must be unique'],
        ),
        (
            mounted({"name": "v", "mountPath": "/v", "subPath": "a/../.."}),
            [f"{CONTAINER}.volumeMounts.subPath: Invalid value: \"a/../..\": must not contain '..'"],
        ),
        (
            mounted({"name": "v", "mountPath": "/v", "subPathExpr": "/a"}),
            [f'{CONTAINER}.volumeMounts.subPathExpr: Invalid value: "/a": must be a relative path'],
        ),
    ],
)
def test_what_kubernetes_refuses(spec: Obj, complaints: list[str]) -> None:
    assert told(spec) == complaints


@pytest.mark.parametrize(
    "spec",
    [
        pod(),
        mounted({"name": "v", "mountPath": "relative:1", "subPath": "a/..b/./c"}),
        pod(containers=[container(env=[{"name": "a b/$%#", "value": "x"}, {"name": "1"}])]),
        pod(
            containers=[container(name="1-a", ports=[{"containerPort": 65535, "name": "http-8"}, {"containerPort": 1}])]
        ),
        pod(imagePullSecrets=[{"name": ""}, {"name": "Not a name"}]),
        pod(volumes=[volume(secret={"secretName": "Not_a_name", "optional": True}), volume("host", hostPath={})]),
        pod(volumes=[volume(configMap={"name": "c", "items": [{"key": "/", "path": "a//b/...c"}]})]),
        pod(containers=[container(envFrom=[{"secretRef": {"name": "a-"}}])]),
        pod(serviceAccountName="", volumes=None, initContainers=None),
    ],
)
def test_what_kubernetes_takes(spec: Obj) -> None:
    assert told(spec) == []


@pytest.mark.parametrize(
    ("key", "complaints"),
    [
        ("tls.crt", []),
        (".dockerconfigjson", []),
        ("...", ["must not start with '..'"]),
        ("..", ["must not be '..'"]),
        (".", ["must not be '.'"]),
        ("../x", [KEY_RULE, "must not start with '..'"]),
        ("a/b", [KEY_RULE]),
        ("", [KEY_RULE]),
        ("a" * 254, ["must be no more than 253 characters"]),
    ],
)
def test_keys_of_configmaps_and_secrets(key: str, complaints: list[str]) -> None:
    assert [fault.rule for fault in data_faults("data", {key: "x"})] == complaints
    assert all(fault.path == f"data[{key}]" for fault in data_faults("data", {key: "x"}))


WRONG = pod(volumes=[volume("~/.ssh", downwardAPI={"items": [{"path": "authorized_keys"}]})])
RESTARTED = {**WRONG, "restartPolicy": "Never"}
SINK = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}}
KNATIVE = [
    ("sources.knative.dev", "ContainerSource", {"sink": SINK, "template": {"spec": WRONG}}),
    ("serving.knative.dev", "Service", {"template": {"spec": WRONG}}),
    ("sinks.knative.dev", "JobSink", {"job": {"spec": {"template": {"spec": RESTARTED}}}}),
]


def judged(group: str, kind: str, obj: Obj, old: Obj | None) -> str:
    context = AdmissionContext("u", "ns", {}, Settings(), "UPDATE" if old else "CREATE")
    try:
        ADMISSION[group, kind].validate(obj, old, context)
    except AdmissionDenied as denied:
        return denied.message
    return ""


@pytest.mark.parametrize(("group", "kind", "spec"), KNATIVE, ids=lambda value: value if isinstance(value, str) else "")
def test_templates_of_knatives_kinds_are_held_to_the_same(group: str, kind: str, spec: Obj) -> None:
    obj = {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec}
    assert "spec.volumes[0].name" in judged(group, kind, obj, None)
    assert LABEL_RULE in judged(group, kind, obj, None)
    labelled = {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
    assert judged(group, kind, labelled, obj) == "", "what was stored under older rules can be changed elsewhere"


def test_knatives_kinds_tell_in_its_words() -> None:
    faults = pod(
        containers=[container(volumeMounts=[{"name": "w", "mountPath": "/w"}]), container()],
        volumes=[volume("v"), volume("v"), volume("")],
    )
    obj = {"metadata": {"name": "x"}, "spec": {"sink": SINK, "template": {"spec": faults}}}
    assert judged("sources.knative.dev", "ContainerSource", obj, None).splitlines() == [
        'duplicate container name "main": spec.template.spec.containers[1].name',
        'duplicate volume name "v": spec.template.spec.volumes[1].name',
        "missing field(s): spec.template.spec.volumes[2].name",
        "volumeMount has no matching volume: spec.template.spec.containers[0].volumeMounts[0].name",
    ]


def test_a_port_of_a_serving_service_needs_no_number() -> None:
    named = pod(containers=[container(ports=[{"name": "h2c"}])])
    obj = {"metadata": {"name": "x"}, "spec": {"template": {"spec": named}}}
    assert judged("serving.knative.dev", "Service", obj, None) == ""


def test_the_volume_of_a_jobsinks_event_need_not_be_declared() -> None:
    own = mounted({"name": "jobsink-event", "mountPath": "/e"}, volumes=())
    obj = {
        "metadata": {"name": "x"},
        "spec": {"job": {"spec": {"template": {"spec": {**own, "restartPolicy": "Never"}}}}},
    }
    assert judged("sinks.knative.dev", "JobSink", obj, None) == ""


def test_a_long_value_is_cut() -> None:
    fault = pod_rules.Fault("p", "Invalid", "x" * 100_000, "r")
    assert len(fault.text) < 500
