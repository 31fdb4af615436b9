"""What is stored can be read by clients with types: one object that cannot would keep them from reading all others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lightkube.resources.core_v1 import Pod

from penstock.runtime.times import is_rfc3339
from tests.unit.apiserver.api_in_process import ApiInProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

PODS = "/api/v1/namespaces/default/pods"
TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"


def pod(name: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": containers, **spec}}


def managed(time: object) -> dict[str, Any]:
    return {"managedFields": [{"manager": "m", "operation": "Update", "time": time, "fieldsV1": {"f:spec": {}}}]}


def owned(**more: object) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": "u", **more}]}


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        (managed("x"), "metadata.managedFields[0].time"),
        (managed(5), "metadata.managedFields[0].time"),
        (owned(controller="yes"), "metadata.ownerReferences[0].controller"),
        (owned(blockOwnerDeletion=1), "metadata.ownerReferences[0].blockOwnerDeletion"),
    ],
)
async def test_metadata_of_another_type_is_refused(api: ApiInProcess, metadata: dict[str, Any], field: str) -> None:
    trigger = {"metadata": {"name": "t", **metadata}, "spec": {"broker": "b", "subscriber": {"uri": "http://s"}}}
    for path, obj in ((PODS, pod("p", metadata)), (TRIGGERS, trigger)):
        status, refused = await api.call("POST", path, obj)
        assert (status, refused["details"]["causes"][0]["field"]) == (422, field), refused
    await api.call("POST", PODS, pod("changed"))
    status, refused = await api.call(
        "PATCH", f"{PODS}/changed", {"metadata": metadata}, media="application/merge-patch+json"
    )
    assert (status, refused["details"]["causes"][0]["field"]) == (422, field), refused


async def test_a_link_to_itself_is_text(api: ApiInProcess) -> None:
    await api.made(PODS, pod("linked"))
    patch = {"metadata": {"selfLink": 5}}
    status, _ = await api.call("PATCH", f"{PODS}/linked", patch, media="application/merge-patch+json")
    assert status == 422


@pytest.mark.parametrize("time", ["x", "", "2020-01-01", "2020-13-01T00:00:00Z", "2020-01-01T00:00:00"])
async def test_moments_within_an_object_are_moments(api: ApiInProcess, time: str) -> None:
    claim = {"metadata": {"creationTimestamp": time}, "spec": {}}
    status, refused = await api.call(
        "POST", PODS, pod("m", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}])
    )
    assert status == 422
    assert f'in body must be of type date-time: "{time}"' in refused["message"]
    assert not is_rfc3339(time)


@pytest.mark.parametrize(
    "time", ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.123456789z", "2020-01-01T00:00:00+01:00"]
)
async def test_every_form_of_a_moment_is_taken(time: str) -> None:
    assert is_rfc3339(time)


async def test_whole_numbers_are_whole_however_they_are_written(api: ApiInProcess) -> None:
    await api.made(PODS, pod("whole", terminationGracePeriodSeconds=30.0, priority=-0.0))
    apply = {"apiVersion": "v1", "kind": "Pod", **pod("applied", activeDeadlineSeconds=1e3)}
    status, _ = await api.call("PATCH", f"{PODS}/applied?fieldManager=m", apply, media="application/apply-patch+yaml")
    assert status == 201
    for name, number in (("half", 0.5), ("huge", 1e30), ("too large", 2.0**63)):
        status, _ = await api.call("POST", PODS, pod(name.replace(" ", "-"), terminationGracePeriodSeconds=number))
        assert status == 422, name
    _, listed = await api.call("GET", PODS)
    found = {one["metadata"]["name"]: one["spec"] for one in listed["items"]}
    assert repr(found["whole"]["terminationGracePeriodSeconds"]) == "30"
    assert repr(found["applied"]["activeDeadlineSeconds"]) == "1000"
    msgspec.json.decode(msgspec.json.encode(listed["items"]), type=list[Pod])
