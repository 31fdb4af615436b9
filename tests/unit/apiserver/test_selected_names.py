"""Rules with resource names hold for lists, watches and deletions of collections by what the selector really leaves."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.unit.apiserver.api_in_process import RBAC, ApiInProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    "selector",
    [
        r"metadata.name!=x\,metadata.name=allowed",
        r"metadata.name!=x\,metadata.name==allowed",
        r"type!=x\,metadata.name=allowed",
        "metadata.name!=allowed",
        "metadata.namespace=default",
    ],
)
@pytest.mark.parametrize(
    ("method", "more"), [("GET", ""), ("GET", "&watch=true&timeoutSeconds=1"), ("DELETE", "&dryRun=All")]
)
async def test_a_selector_that_leaves_other_names_is_not_allowed_by_one(
    api: ApiInProcess, selector: str, method: str, more: str
) -> None:
    await prepare(api)
    path = f"/api/v1/namespaces/default/secrets?fieldSelector={quote(selector)}{more}"
    status, refused = await api.call(method, path, user="reader")
    assert (status, refused["reason"]) == (403, "Forbidden"), refused


async def test_a_selector_that_leaves_the_name_is_allowed(api: ApiInProcess) -> None:
    await prepare(api)
    for selector in (
        "metadata.name=allowed",
        "metadata.name==allowed,type=Opaque",
        "type!=A,metadata.name=allowed",
    ):
        path = f"/api/v1/namespaces/default/secrets?fieldSelector={quote(selector)}"
        status, listed = await api.call("GET", path, user="reader")
        assert status == 200, listed
        assert [item["metadata"]["name"] for item in listed["items"]] == ["allowed"]
    status, deleted = await api.call("DELETE", f"{path}&dryRun=All", user="reader")
    assert (status, [item["metadata"]["name"] for item in deleted["items"]]) == (200, ["allowed"])


async def test_a_pod_log_is_read_and_not_written(api: ApiInProcess) -> None:
    for method in ("POST", "PUT", "DELETE"):
        status, refused = await api.call(method, "/api/v1/namespaces/default/pods/p/log", {})
        assert (status, refused["reason"]) == (405, "MethodNotAllowed"), method


async def prepare(api: ApiInProcess) -> None:
    """Two Secrets, and somebody who may see and delete one of them."""
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["allowed"],
        "verbs": ["list", "watch", "deletecollection"],
    }
    bound = {"roleRef": {"kind": "Role", "name": "reader"}, "subjects": [{"kind": "User", "name": "reader"}]}
    for plural, body in (
        (f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "reader"}, "rules": [rule]}),
        (f"{RBAC}/namespaces/default/rolebindings", {"metadata": {"name": "reader"}, **bound}),
        ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "allowed"}, "type": "Opaque"}),
        ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "other"}}),
    ):
        assert (await api.call("POST", plural, body))[0] in (201, 409)
