"""Trust bundles for SinkBindings: copies in their namespaces, and a volume in the Pod templates of their subjects."""

from __future__ import annotations

from typing import Any

from penstock.kube.kinds import CONFIG_MAP, CONTAINER_SOURCE, DEPLOYMENT, JOB, SINK_BINDING, Key, Obj
from tests.certificate_files import authority
from tests.unit.controllers.memory_plane import ControlPlane

FIRST, SECOND = (authority(name).certificate.decode() for name in ("first", "second"))
LABEL = "networking.knative.dev/trust-bundle"
COMBINED, OURS = "kn-combined-kne-bundlekne-bundle", "ourskne-bundle"
SINK = {"uri": "https://sink"}


def put(plane: ControlPlane, name: str, data: dict[str, str], namespace: str = "knative-eventing") -> None:
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: "true"}}
    plane.api.apply(CONFIG_MAP, {"metadata": metadata, "data": data})


def bind(plane: ControlPlane, name: str, namespace: str = "ns") -> None:
    """A Deployment and a SinkBinding of that name."""
    metadata = {"name": name, "namespace": namespace}
    spec: Obj = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    plane.api.apply(DEPLOYMENT, {"metadata": metadata, "spec": spec})
    subject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    plane.api.apply(SINK_BINDING, {"metadata": metadata, "spec": {"sink": SINK, "subject": subject}})


def mounted(plane: ControlPlane, name: str, namespace: str = "ns") -> list[str]:
    pod = (plane.api.get(DEPLOYMENT, namespace, name) or {})["spec"]["template"]["spec"]
    sources = [source for one in pod.get("volumes", []) for source in one["projected"]["sources"]]
    shown = [one["mountPath"] for one in pod["containers"][0].get("volumeMounts", [])]
    assert shown == (["/knative-custom-certs"] if sources else [])
    return [one["configMap"]["name"] for one in sources]


def copies(plane: ControlPlane, namespace: str = "ns") -> dict[str, dict[str, str]]:
    return {key.name: obj["data"] for key, obj in plane.api.all(CONFIG_MAP).items() if key.namespace == namespace}


def propagated(plane: ControlPlane, name: str) -> dict[str, Any]:
    return plane.condition(SINK_BINDING, name, "TrustBundlePropagated")


async def test_copies_come_change_and_go_with_the_bundle(plane: ControlPlane) -> None:
    bind(plane, "d")
    await plane.until(lambda: plane.ready(SINK_BINDING, "d"))
    await plane.settled()
    assert (copies(plane), mounted(plane, "d")) == ({}, [])
    put(plane, "ours", {"ca.pem": FIRST})
    await plane.until(lambda: mounted(plane, "d") == [COMBINED, OURS])
    assert copies(plane) == {OURS: {"ca.pem": FIRST}, COMBINED: {"kn-combined-kne-bundle.pem": FIRST}}
    put(plane, "ours", {"ca.pem": SECOND})
    changed = {OURS: {"ca.pem": SECOND}, COMBINED: {"kn-combined-kne-bundle.pem": SECOND}}
    await plane.until(lambda: copies(plane) == changed)
    plane.api.remove(CONFIG_MAP, Key("knative-eventing", "ours"))
    await plane.until(lambda: copies(plane) == {} and mounted(plane, "d") == [])
    assert propagated(plane, "d")["status"] == "True"
    await plane.settled()


async def test_copies_go_with_the_last_sinkbinding(plane: ControlPlane) -> None:
    put(plane, "ours", {"ca.pem": FIRST})
    bind(plane, "one")
    bind(plane, "two")
    await plane.until(lambda: mounted(plane, "one") == mounted(plane, "two") == [COMBINED, OURS])
    await plane.settled()
    plane.api.remove(SINK_BINDING, Key("ns", "one"))
    await plane.until(lambda: plane.api.get(SINK_BINDING, "ns", "one") is None and mounted(plane, "one") == [])
    await plane.settled()
    assert sorted(copies(plane)) == mounted(plane, "two") == [COMBINED, OURS]
    plane.api.remove(SINK_BINDING, Key("ns", "two"))
    await plane.until(lambda: copies(plane) == {})


async def test_a_copy_that_somebody_changed_or_deleted_comes_back(plane: ControlPlane) -> None:
    put(plane, "ours", {"ca.pem": FIRST})
    bind(plane, "d")
    await plane.until(lambda: mounted(plane, "d") == [COMBINED, OURS])
    await plane.settled()
    before = copies(plane)
    plane.api.remove(CONFIG_MAP, Key("ns", OURS))
    await plane.until(lambda: copies(plane) == before)
    plane.api.apply(CONFIG_MAP, {**(plane.api.get(CONFIG_MAP, "ns", OURS) or {}), "data": {"ca.pem": SECOND}})
    await plane.until(lambda: copies(plane) == before)


async def test_a_bundle_of_the_namespace_itself_is_mounted_too(plane: ControlPlane) -> None:
    put(plane, "mine", {"ca.pem": SECOND}, namespace="ns")
    put(plane, "far", {"ca.pem": SECOND}, namespace="elsewhere")
    bind(plane, "d")
    await plane.until(lambda: mounted(plane, "d") == ["mine"])
    plane.api.remove(SINK_BINDING, Key("ns", "d"))
    await plane.until(lambda: mounted(plane, "d") == [])
    assert list(copies(plane)) == ["mine"]


async def test_a_configmap_of_somebody_else_is_left_alone_and_told(plane: ControlPlane) -> None:
    theirs = {"metadata": {"name": OURS, "namespace": "ns"}, "data": {"colour": "blue"}}
    plane.api.apply(CONFIG_MAP, theirs)
    put(plane, "ours", {"ca.pem": FIRST})
    bind(plane, "d")
    await plane.until(lambda: propagated(plane, "d").get("status") == "False")
    told = propagated(plane, "d")
    assert told["reason"] == "FailedTrustBundlePropagation"
    assert told["message"] == f'There is an existing ConfigMap "{OURS}" that we do not own.'
    assert not plane.ready(SINK_BINDING, "d")
    assert (copies(plane)[OURS], mounted(plane, "d")) == ({"colour": "blue"}, [COMBINED])


async def test_in_the_system_namespace_bundles_are_mounted_as_they_are(plane: ControlPlane) -> None:
    put(plane, "ours", {"ca.pem": FIRST})
    bind(plane, "d", namespace="knative-eventing")
    await plane.until(lambda: mounted(plane, "d", "knative-eventing") == ["ours"])
    await plane.settled()
    assert [name for name in copies(plane, "knative-eventing") if "kne-bundle" in name] == []


async def test_a_containersource_mounts_them_and_comes_to_rest(plane: ControlPlane) -> None:
    put(plane, "ours", {"ca.pem": FIRST})
    template = {"spec": {"containers": [{"image": "heartbeats", "name": "c"}]}}
    metadata = {"name": "hearts", "namespace": "ns"}
    sink = {**SINK, "CACerts": SECOND}
    plane.api.apply(CONTAINER_SOURCE, {"metadata": metadata, "spec": {"sink": sink, "template": template}})
    await plane.until(lambda: plane.api.get(DEPLOYMENT, "ns", "hearts-deployment"))
    await plane.until(lambda: mounted(plane, "hearts-deployment") == [COMBINED, OURS])
    await plane.settled()
    made = plane.api.get(DEPLOYMENT, "ns", "hearts-deployment") or {}
    assert {"name": "K_CA_CERTS", "value": SECOND} in made["spec"]["template"]["spec"]["containers"][0]["env"]


async def test_a_job_keeps_what_it_was_made_with(plane: ControlPlane) -> None:
    environment = [{"name": "K_SINK", "value": "https://sink"}, {"name": "K_CE_OVERRIDES", "value": ""}]
    metadata = {"name": "j", "namespace": "ns"}
    template = {"spec": {"containers": [{"name": "c", "image": "i", "env": environment}]}}
    made = plane.api.apply(JOB, {"metadata": metadata, "spec": {"template": template}})
    subject = {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}
    plane.api.apply(SINK_BINDING, {"metadata": metadata, "spec": {"sink": SINK, "subject": subject}})
    put(plane, "ours", {"ca.pem": FIRST})
    await plane.until(lambda: sorted(copies(plane)) == [COMBINED, OURS] and plane.ready(SINK_BINDING, "j"))
    await plane.settled()
    assert (plane.api.get(JOB, "ns", "j") or {})["spec"]["template"] == made["spec"]["template"]
