"""The plugin of SinkBindings: what an object has in its Pod template from the moment it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.cluster.eventing_admission import SinkBindingAdmission
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
def plugin() -> SinkBindingAdmission:
    plugin = SinkBindingAdmission()
    plugin.load([binding()])
    return plugin


def test_a_new_object_that_is_meant_is_bound(plugin: SinkBindingAdmission) -> None:
    assert variables(plugin.default(job(), None, CREATE)) == ["K_SINK", "K_CE_OVERRIDES"]


def test_it_mounts_the_secret_of_the_bindings_token() -> None:
    plugin, guarded = SinkBindingAdmission(), binding()
    guarded["status"]["oidcTokenSecretName"] = "sb-oidc-token"
    plugin.load([guarded])
    pod = plugin.default(job(), None, CREATE)["spec"]["template"]["spec"]
    sources = [source for one in pod["volumes"] for source in one["projected"]["sources"]]
    assert sources == [{"secret": {"name": "sb-oidc-token"}}]
    assert [one["mountPath"] for one in pod["containers"][0]["volumeMounts"]] == ["/oidc"]


@pytest.mark.parametrize(
    ("obj", "admitted"),
    [
        (job("other"), CREATE),
        (job(), AdmissionRequest(DEPLOYMENT, "ns", "jane", "CREATE")),
        (job(), AdmissionRequest(JOB, "elsewhere", "jane", "CREATE")),
        ({"metadata": {"name": "j"}, "spec": "odd"}, CREATE),
    ],
)
def test_others_are_left_alone(plugin: SinkBindingAdmission, obj: Obj, admitted: AdmissionRequest) -> None:
    assert plugin.default(obj, None, admitted) is obj


def test_a_change_of_anything_but_the_template_is_left_alone(plugin: SinkBindingAdmission) -> None:
    update = AdmissionRequest(JOB, "ns", "jane", "UPDATE")
    assert variables(plugin.default(job(), job(), update)) == []
    assert variables(plugin.default(job(image="2"), job(), update)) == ["K_SINK", "K_CE_OVERRIDES"]


def test_changes_of_bindings_count_at_once(plugin: SinkBindingAdmission) -> None:
    def change(kind: str, obj: Obj) -> Change:
        return Change(1, kind, "sinkbindings.sources.knative.dev", "ns", "sb", encode(obj), None)

    plugin.follow([change("MODIFIED", binding(deletionTimestamp="2026-01-01T00:00:00Z"))])
    assert variables(plugin.default(job(), None, CREATE)) == []
    plugin.follow([change("MODIFIED", binding())])
    assert variables(plugin.default(job(), None, CREATE)) != []
    plugin.follow([change("DELETED", binding())])
    assert variables(plugin.default(job(), None, CREATE)) == []


def bundle(name: str, label: str = "true", namespace: str = "ns") -> Obj:
    labels = {"networking.knative.dev/trust-bundle": label}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}}


def mounted(obj: Obj) -> list[str]:
    volumes = obj["spec"]["template"]["spec"].get("volumes", [])
    return [source["configMap"]["name"] for one in volumes for source in one["projected"]["sources"]]


def test_a_bound_object_mounts_the_bundles_of_its_namespace() -> None:
    plugin = SinkBindingAdmission()
    plugin.load([binding()], [bundle("one"), bundle("off", "false"), bundle("far", namespace="elsewhere")])
    assert mounted(plugin.default(job(), None, CREATE)) == ["one"]
    assert mounted(plugin.default(job("other"), None, CREATE)) == []


def test_changes_of_bundles_count_at_once(plugin: SinkBindingAdmission) -> None:
    def change(kind: str, obj: Obj) -> Change:
        return Change(1, kind, "configmaps", "ns", obj["metadata"]["name"], encode(obj), None)

    assert mounted(plugin.default(job(), None, CREATE)) == []
    plugin.follow([change("ADDED", bundle("two")), change("ADDED", bundle("one")), change("ADDED", bundle("x", "no"))])
    assert mounted(plugin.default(job(), None, CREATE)) == ["one", "two"]
    plugin.follow([change("MODIFIED", bundle("one")), change("MODIFIED", bundle("two", "false"))])
    assert mounted(plugin.default(job(), None, CREATE)) == ["one"]
    plugin.follow([change("DELETED", bundle("one"))])
    assert mounted(plugin.default(job(), None, CREATE)) == []
