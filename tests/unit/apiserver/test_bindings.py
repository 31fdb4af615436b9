"""The gate of SinkBindings: what an object has in its Pod template from the moment it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.cluster.eventing_admission import BindingGate
from penstock.apiserver.documents import encode
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.store.storage import Change
from penstock.apiserver.verbs.admission import AdmissionRequest

Obj = dict[str, Any]

JOB = next(kind for kind in CORE_KINDS if kind.kind == "Job")
DEPLOYMENT = next(kind for kind in CORE_KINDS if kind.kind == "Deployment")
CREATE = AdmissionRequest(JOB, "ns", "jane", "CREATE")


def binding(**metadata: Any) -> Obj:
    subject = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "selector": {"matchLabels": {"app": "a"}}}
    return {
        "metadata": {"name": "sb", "namespace": "ns", **metadata},
        "spec": {"subject": subject, "sink": {"uri": "http://sink"}},
        "status": {"sinkUri": "http://sink"},
    }


def job(app: str = "a", image: str = "i") -> Obj:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return {"metadata": {"name": "j", "namespace": "ns", "labels": {"app": app}}, "spec": {"template": template}}


def variables(obj: Obj) -> list[str]:
    return [one["name"] for one in obj["spec"]["template"]["spec"]["containers"][0].get("env", [])]


@pytest.fixture
def gate() -> BindingGate:
    gate = BindingGate()
    gate.load([binding()])
    return gate


def test_a_new_object_that_is_meant_is_bound(gate: BindingGate) -> None:
    assert variables(gate.default(job(), None, CREATE)) == ["K_SINK", "K_CE_OVERRIDES"]


def test_it_mounts_the_secret_of_the_bindings_token() -> None:
    gate, guarded = BindingGate(), binding()
    guarded["status"]["oidcTokenSecretName"] = "sb-oidc-token"
    gate.load([guarded])
    pod = gate.default(job(), None, CREATE)["spec"]["template"]["spec"]
    sources = [source for one in pod["volumes"] for source in one["projected"]["sources"]]
    assert sources == [{"secret": {"name": "sb-oidc-token"}}]
    assert [one["mountPath"] for one in pod["containers"][0]["volumeMounts"]] == ["/oidc"]


@pytest.mark.parametrize(
    ("obj", "occasion"),
    [
        (job("other"), CREATE),
        (job(), AdmissionRequest(DEPLOYMENT, "ns", "jane", "CREATE")),
        (job(), AdmissionRequest(JOB, "elsewhere", "jane", "CREATE")),
        ({"metadata": {"name": "j"}, "spec": "odd"}, CREATE),
    ],
)
def test_others_are_left_alone(gate: BindingGate, obj: Obj, occasion: AdmissionRequest) -> None:
    assert gate.default(obj, None, occasion) is obj


def test_a_change_of_anything_but_the_template_is_left_alone(gate: BindingGate) -> None:
    update = AdmissionRequest(JOB, "ns", "jane", "UPDATE")
    assert variables(gate.default(job(), job(), update)) == []
    assert variables(gate.default(job(image="2"), job(), update)) == ["K_SINK", "K_CE_OVERRIDES"]


def test_changes_of_bindings_count_at_once(gate: BindingGate) -> None:
    def change(kind: str, obj: Obj) -> Change:
        return Change(1, kind, "sinkbindings.sources.knative.dev", "ns", "sb", encode(obj), None)

    gate.follow([change("MODIFIED", binding(deletionTimestamp="2026-01-01T00:00:00Z"))])
    assert variables(gate.default(job(), None, CREATE)) == []
    gate.follow([change("MODIFIED", binding())])
    assert variables(gate.default(job(), None, CREATE)) != []
    gate.follow([change("DELETED", binding())])
    assert variables(gate.default(job(), None, CREATE)) == []


def bundle(name: str, label: str = "true", namespace: str = "ns") -> Obj:
    labels = {"networking.knative.dev/trust-bundle": label}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def mounted(obj: Obj) -> list[str]:
    volumes = obj["spec"]["template"]["spec"].get("volumes", [])
    return [source["configMap"]["name"] for one in volumes for source in one["projected"]["sources"]]


def test_a_bound_object_mounts_the_bundles_of_its_namespace() -> None:
    gate = BindingGate()
    gate.load([binding()], [bundle("one"), bundle("off", "false"), bundle("far", namespace="elsewhere")])
    assert mounted(gate.default(job(), None, CREATE)) == ["one"]
    assert mounted(gate.default(job("other"), None, CREATE)) == []


def test_changes_of_bundles_count_at_once(gate: BindingGate) -> None:
    def change(kind: str, obj: Obj) -> Change:
        return Change(1, kind, "configmaps", "ns", obj["metadata"]["name"], encode(obj), None)

    assert mounted(gate.default(job(), None, CREATE)) == []
    gate.follow([change("ADDED", bundle("two")), change("ADDED", bundle("one")), change("ADDED", bundle("x", "no"))])
    assert mounted(gate.default(job(), None, CREATE)) == ["one", "two"]
    gate.follow([change("MODIFIED", bundle("one")), change("MODIFIED", bundle("two", "false"))])
    assert mounted(gate.default(job(), None, CREATE)) == ["one"]
    gate.follow([change("DELETED", bundle("one"))])
    assert mounted(gate.default(job(), None, CREATE)) == []
