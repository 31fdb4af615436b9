"""What a request wants, read from its address; and that nobody gets past the door without being allowed to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message

from penstock.apiserver.access.identity import CONTROLLER, NODE
from penstock.apiserver.access.rules import AccessRequest
from penstock.apiserver.http.request_info import parse_request
from tests.unit.apiserver.api_in_process import RBAC, ApiInProcess, api_in_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

PODS = "/api/v1/namespaces/ns/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", PODS, "", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "watch=true&x=1", AccessRequest("watch", "", "pods", "", "ns")),
        ("GET", PODS, "w%61tch=1", AccessRequest("watch", "", "pods", "", "ns")),
        ("GET", PODS, "watch=true&watch=", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "fieldSelector=metadata.name=a&fieldSelector=", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "fieldSelector=metadata.name!=a", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "limit=5", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "fieldSelector=metadata.name%3Da", AccessRequest("list", "", "pods", "", "ns", "a")),
        ("GET", f"{PODS}/a", "", AccessRequest("get", "", "pods", "", "ns", "a")),
        ("GET", f"{PODS}/a", "watch=1", AccessRequest("watch", "", "pods", "", "ns", "a")),
        ("HEAD", f"{PODS}/a", "", AccessRequest("get", "", "pods", "", "ns", "a")),
        ("GET", f"{PODS}/a/log", "follow=true", AccessRequest("get", "", "pods", "log", "ns", "a")),
        ("GET", f"{PODS}/a/log", "watch=true", AccessRequest("get", "", "pods", "log", "ns", "a")),
        ("GET", PODS, "fieldSelector=metadata.name!=x\\,metadata.name=a", AccessRequest("list", "", "pods", "", "ns")),
        ("GET", PODS, "fieldSelector=metadata.name=a\\,b", AccessRequest("list", "", "pods", "", "ns", "a,b")),
        ("GET", PODS, "fieldSelector=metadata.name", AccessRequest("list", "", "pods", "", "ns")),
        ("POST", PODS, "", AccessRequest("create", "", "pods", "", "ns")),
        ("PUT", f"{PODS}/a", "", AccessRequest("update", "", "pods", "", "ns", "a")),
        ("PATCH", f"{PODS}/a/status", "", AccessRequest("patch", "", "pods", "status", "ns", "a")),
        ("DELETE", f"{PODS}/a", "", AccessRequest("delete", "", "pods", "", "ns", "a")),
        ("DELETE", PODS, "", AccessRequest("deletecollection", "", "pods", "", "ns")),
        ("DELETE", PODS, "fieldSelector=metadata.name=a", AccessRequest("deletecollection", "", "pods", "", "ns", "a")),
        ("GET", "/api/v1/pods", "", AccessRequest("list", "", "pods")),
        ("GET", "/api/v1/namespaces", "", AccessRequest("list", "", "namespaces")),
        ("GET", "/api/v1/namespaces/ns", "", AccessRequest("get", "", "namespaces", "", "ns", "ns")),
        (
            "PUT",
            "/api/v1/namespaces/ns/finalize",
            "",
            AccessRequest("update", "", "namespaces", "finalize", "ns", "ns"),
        ),
        ("GET", "/apis/apps/v1/namespaces/ns/x/a", "", AccessRequest("get", "apps", "x", "", "ns", "a")),
        ("GET", "/apis/g/v1/namespaces/ns/status", "", AccessRequest("list", "g", "status", "", "ns")),
        ("GET", "/apis/g/v1/namespaces/ns", "", AccessRequest("get", "g", "namespaces", "", "", "ns")),
        ("GET", "/apis/apps/v1", "", AccessRequest("get", path="/apis/apps/v1")),
        ("GET", "/version", "", AccessRequest("get", path="/version")),
        ("POST", "/", "", AccessRequest("post", path="/")),
    ],
)
async def test_what_a_request_wants(method: str, path: str, query: str, expected: AccessRequest) -> None:
    assert parse_request(method, path, query).access == expected


async def test_a_user_without_roles_may_look_around_and_nothing_else(api: ApiInProcess) -> None:
    for path in ("/version", "/api", "/apis", "/apis/apps/v1", "/openapi/v3"):
        assert (await api.call("GET", path, user="nobody"))[0] == 200, path
    status, refused = await api.call("GET", "/api/v1/namespaces/default/pods", user="nobody")
    assert status == 403
    assert refused["message"] == (
        'pods is forbidden: User "nobody" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert refused["details"] == {"kind": "pods"}
    status, refused = await api.call("GET", "/logs", user="nobody")
    assert (status, refused["message"]) == (403, 'forbidden: User "nobody" cannot get path "/logs"')
    # What does not exist is told to nobody who may not see it.
    assert (await api.call("GET", "/api/v1/namespaces/default/nothing", user="nobody"))[0] == 403
    assert (await api.call("GET", "/api/v1/namespaces/default/nothing"))[0] == 404


async def test_no_token_no_entry(api: ApiInProcess) -> None:
    for token in ("", "x", "a.b.c"):
        assert (await api.call("GET", "/version", token=token))[0] == 401


async def test_other_protocols_are_no_way_around(api: ApiInProcess) -> None:
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        told.append(message)

    await api.app({"type": "websocket", "path": "/api/v1/pods", "headers": []}, receive, send)
    assert told == [{"type": "websocket.close"}]


async def test_a_role_in_a_namespace_holds_there(api: ApiInProcess) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    bound = {
        "metadata": {"name": "jane-edits"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    await api.made(f"{RBAC}/namespaces/shop/rolebindings", bound)
    brokers = "/apis/eventing.knative.dev/v1/namespaces/{}/brokers"
    made = await api.made(brokers.format("shop"), {"metadata": {"name": "b"}}, user="jane")
    assert made["metadata"]["annotations"]["eventing.knative.dev/creator"] == "jane"
    assert (await api.call("GET", brokers.format("shop"), user="jane"))[0] == 200
    assert (await api.call("GET", brokers.format("default"), user="jane"))[0] == 403
    assert (await api.call("GET", "/apis/eventing.knative.dev/v1/brokers", user="jane"))[0] == 403
    assert (await api.call("GET", f"{RBAC}/namespaces/shop/roles", user="jane"))[0] == 403


async def test_nobody_grants_more_than_they_have(api: ApiInProcess) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "owned"}})
    admin = {
        "metadata": {"name": "anna"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "name": "anna"}],
    }
    await api.made(f"{RBAC}/namespaces/owned/rolebindings", admin)
    path = f"{RBAC}/namespaces/owned/roles"
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    stored = await api.made(path, role, user="anna")
    more = {**stored, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]}
    status, refused = await api.call("PUT", f"{path}/r", more, user="anna")
    assert status == 403
    assert refused["message"] == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "anna" (groups=["system:authenticated"]) is attempting '
        'to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}'
    )
    everything = {**admin, "metadata": {"name": "e"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
    assert (await api.call("POST", f"{RBAC}/namespaces/owned/rolebindings", everything, user="anna"))[0] == 403
    nothing = {**admin, "metadata": {"name": "n"}, "roleRef": {"kind": "Role", "name": "none"}}
    status, refused = await api.call("POST", f"{RBAC}/namespaces/owned/rolebindings", nothing, user="anna")
    assert (status, refused["message"]) == (404, 'roles.rbac.authorization.k8s.io "none" not found')
    given = {**admin, "metadata": {"name": "g"}, "roleRef": {"kind": "Role", "name": "r"}}
    await api.made(f"{RBAC}/namespaces/owned/rolebindings", given, user="anna")


async def test_who_may_escalate_or_bind_may(api: ApiInProcess) -> None:
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create", "escalate"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": ["create"]},
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "verbs": ["bind"],
            "resourceNames": ["cluster-admin"],
        },
    ]
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "keeper"}, "rules": rules})
    binding = {
        "metadata": {"name": "keeper"},
        "roleRef": {"kind": "ClusterRole", "name": "keeper"},
        "subjects": [{"kind": "User", "name": "kay"}],
    }
    await api.made(f"{RBAC}/clusterrolebindings", binding)
    nodes = {"metadata": {"name": "n"}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}
    await api.made(f"{RBAC}/clusterroles", nodes, user="kay")
    roots = {**binding, "metadata": {"name": "roots"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
    await api.made(f"{RBAC}/clusterrolebindings", roots, user="kay")
    views = {**binding, "metadata": {"name": "views"}, "roleRef": {"kind": "ClusterRole", "name": "view"}}
    await api.call("DELETE", f"{RBAC}/clusterrolebindings/roots")
    assert (await api.call("POST", f"{RBAC}/clusterrolebindings", views, user="kay"))[0] == 403


@pytest.mark.parametrize(
    ("plural", "body", "complaint"),
    [
        ("clusterroles", {"rules": [{"resources": ["pods"], "apiGroups": [""], "verbs": []}]}, "rules[0].verbs"),
        ("clusterroles", {"rules": [{"verbs": ["get"]}]}, "rules[0].apiGroups"),
        (
            "namespaces/default/roles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            "namespaced rules cannot apply to non-resource URLs",
        ),
        ("clusterroles", {"aggregationRule": {}}, "at least one clusterRoleSelector required"),
        ("clusterrolebindings", {"roleRef": {"kind": "Role", "name": "x"}}, 'roleRef.kind: Unsupported value: "Role"'),
        (
            "clusterrolebindings",
            {"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]},
            "subjects[0].namespace: Required value",
        ),
        (
            "clusterrolebindings",
            {"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": [{"kind": "Robot", "name": "a"}]},
            'subjects[0].kind: Unsupported value: "Robot"',
        ),
    ],
)
async def test_roles_and_bindings_that_make_no_sense(
    api: ApiInProcess, plural: str, body: dict[str, object], complaint: str
) -> None:
    status, refused = await api.call("POST", f"{RBAC}/{plural}", {"metadata": {"name": "bad"}, **body})
    assert status == 422
    assert complaint in refused["message"]


async def test_a_binding_keeps_its_role(api: ApiInProcess) -> None:
    made = await api.made(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "k"},
            "roleRef": {"apiGroup": "", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "", "kind": "User", "name": "u"}],
        },
    )
    assert made["roleRef"]["apiGroup"] == made["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    other = {**made, "roleRef": {"kind": "ClusterRole", "name": "edit"}}
    status, refused = await api.call("PUT", f"{RBAC}/clusterrolebindings/k", other)
    assert status == 422
    assert "roleRef: Invalid value" in refused["message"]


async def test_applying_something_new_takes_the_right_to_create(api: ApiInProcess) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "patcher"}, "rules": rules})
    binding = {
        "metadata": {"name": "patcher"},
        "roleRef": {"kind": "ClusterRole", "name": "patcher"},
        "subjects": [{"kind": "User", "name": "pat"}],
    }
    await api.made(f"{RBAC}/clusterrolebindings", binding)
    path = "/api/v1/namespaces/default/configmaps/applied"
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
    media = "application/apply-patch+yaml"
    status, refused = await api.call("PATCH", f"{path}?fieldManager=t", wanted, user="pat", media=media)
    assert status == 403
    assert 'cannot create resource "configmaps"' in refused["message"]
    assert (await api.call("GET", path))[0] == 404
    assert (await api.call("PATCH", f"{path}?fieldManager=t", wanted, media=media))[0] == 201
    changed = {**wanted, "data": {"a": "c"}}
    assert (await api.call("PATCH", f"{path}?fieldManager=t", changed, user="pat", media=media))[0] == 200


async def test_impersonation_has_to_be_allowed(api: ApiInProcess) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "acts"}})
    bound = {
        "metadata": {"name": "edits"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "acts"}],
    }
    await api.made(f"{RBAC}/namespaces/acts/rolebindings", bound)
    token = (await api.made("/api/v1/namespaces/acts/serviceaccounts/default/token", {}))["status"]["token"]
    whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    # `edit` includes acting as the accounts of the namespace.
    status, told = await api.call("POST", whoami, {}, token=token, user="system:serviceaccount:acts:other")
    assert (status, told["status"]["userInfo"]["username"]) == (201, "system:serviceaccount:acts:other")
    for user, groups in (
        ("jane", ()),
        ("system:serviceaccount:default:default", ()),
        ("system:serviceaccount:acts:other", ("system:masters",)),
    ):
        status, refused = await api.call("POST", whoami, {}, token=token, user=user, groups=groups)
        assert status == 403
        assert "cannot impersonate resource" in refused["message"]
    assert (await api.call("POST", whoami, {}, groups=("a",)))[0] == 400


async def test_reviews_tell_what_roles_say(api: ApiInProcess) -> None:
    for manipulator in ("channels", "inmemorychannels", "inmemorychannels/status"):
        plural, _, subresource = manipulator.partition("/")
        user = CONTROLLER
        assert await api.may("update", "messaging.knative.dev", plural, user=user, subresource=subresource)
    rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    told = await api.made(rules, {"spec": {"namespace": "default"}}, user="nobody")
    assert told["status"]["incomplete"] is False
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in (
        told["status"]["resourceRules"]
    )
    assert "/version" in told["status"]["nonResourceRules"][0]["nonResourceURLs"]
    local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
    wrong = {"spec": {"user": "x", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}}}
    assert (await api.call("POST", local, wrong))[0] == 400
    both = {"spec": {"user": "x"}}
    assert (await api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", both))[0] == 400
    assert (await api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", both, user="x"))[0] == 403


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("eventing.knative.dev", "brokers"),
        ("eventing.knative.dev", "triggers"),
        ("messaging.knative.dev", "subscriptions"),
        ("messaging.knative.dev", "inmemorychannels"),
        ("", "services"),
        ("", "endpoints"),
        ("", "pods"),
        ("apps", "deployments"),
        ("batch", "jobs"),
    ],
)
async def test_the_controllers_see_what_they_work_on(api: ApiInProcess, verb: str, group: str, resource: str) -> None:
    assert await api.may(verb, group, resource, user=CONTROLLER)


async def test_the_components_have_no_more_than_they_need(api: ApiInProcess) -> None:
    for user in (CONTROLLER, NODE):
        assert not await api.may("create", "rbac.authorization.k8s.io", "clusterrolebindings", user=user)
        assert not await api.may("impersonate", "", "users", user=user)
        assert not await api.may("delete", "", "namespaces", user=user)
    assert await api.may("patch", "", "pods", user=NODE, subresource="status")
    assert await api.may("create", "", "serviceaccounts", user=NODE, subresource="token")
    assert not await api.may("create", "", "pods", user=NODE)
    assert not await api.may("update", "eventing.knative.dev", "brokers", user=NODE)
    # A kind of somebody else's is resolved once its role says that it is addressable.
    assert not await api.may("get", "acme.example", "sinks", user=CONTROLLER)
    rules = [{"apiGroups": ["acme.example"], "resources": ["sinks"], "verbs": ["get", "list", "watch"]}]
    labels = {"duck.knative.dev/addressable": "true"}
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "acme", "labels": labels}, "rules": rules})
    async with asyncio.timeout(30):
        # The aggregation runs behind the write.
        while not await api.may("get", "acme.example", "sinks", user=CONTROLLER):
            await api.made(f"{RBAC}/clusterroles?dryRun=All", {"metadata": {"name": "wait"}})
        assert (await api.call("DELETE", f"{RBAC}/clusterroles/acme"))[0] == 200
        while await api.may("get", "acme.example", "sinks", user=CONTROLLER):
            await api.made(f"{RBAC}/clusterroles?dryRun=All", {"metadata": {"name": "wait"}})


async def test_a_start_restores_roles_and_keeps_additions(tmp_path: Path) -> None:
    async with api_in_process(tmp_path) as first:
        _, view = await first.call("GET", f"{RBAC}/clusterroles/eventing-config-reader")
        mine = {"apiGroups": ["mine"], "resources": ["things"], "verbs": ["get"]}
        changed = {**view, "rules": [mine]}
        assert (await first.call("PUT", f"{RBAC}/clusterroles/eventing-config-reader", changed))[0] == 200
        assert (await first.call("DELETE", f"{RBAC}/clusterroles/view"))[0] == 200
    async with api_in_process(tmp_path) as second:
        _, reader = await second.call("GET", f"{RBAC}/clusterroles/eventing-config-reader")
        assert reader["rules"] == [mine, *view["rules"]]
        _, view = await second.call("GET", f"{RBAC}/clusterroles/view")
        assert any("pods" in rule["resources"] for rule in view["rules"])
