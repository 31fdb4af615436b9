"""RBAC: stored rules decide."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from penstock.apiserver.access.identity import User, account_of, acting_as
from penstock.apiserver.access.policy import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MAX_CACHED,
    ROLE_BINDINGS,
    ROLES,
    AccessPolicy,
    Authorizer,
    denial,
)
from penstock.apiserver.access.rules import AccessRequest, allows, compacted, described, uncovered
from penstock.apiserver.cluster.aggregation import outdated
from penstock.apiserver.cluster.bootstrap import AUTOUPDATE, reconciled, roles
from penstock.apiserver.documents import encode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.store.storage import Change

ACCOUNT = acting_as("system:serviceaccount:ns:sa")


def role(name: str, *rules: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "rules": list(rules)}


def binding(kind: str, role_name: str, subject: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{role_name}-binding"},
        "roleRef": {"kind": kind, "name": role_name},
        "subjects": [subject],
    }


def rule(verbs: str, groups: str, resources: str, **more: Any) -> dict[str, Any]:
    return {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": resources.split(","), **more}


SA = {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}
OBJECTS = {
    (ROLES, "ns", "read"): role("read", rule("get,list", "", "pods")),
    (ROLE_BINDINGS, "ns", "read"): binding("Role", "read", SA),
    (ROLE_BINDINGS, "ns", "named"): binding("ClusterRole", "named", {"kind": "ServiceAccount", "name": "sa"}),
    (CLUSTER_ROLES, "", "named"): role("named", rule("get", "", "secrets", resourceNames=["mine"])),
    (CLUSTER_ROLES, "", "widgets"): role("widgets", rule("*", "tests.example", "*")),
    (CLUSTER_ROLES, "", "subs"): role("subs", rule("update", "*", "*/status")),
    (CLUSTER_ROLES, "", "urls"): role("urls", {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]}),
    (CLUSTER_ROLE_BINDINGS, "", "widgets"): binding("ClusterRole", "widgets", {"kind": "User", "name": "jane"}),
    (CLUSTER_ROLE_BINDINGS, "", "subs"): binding("ClusterRole", "subs", {"kind": "Group", "name": "ops"}),
    (CLUSTER_ROLE_BINDINGS, "", "urls"): binding("ClusterRole", "urls", {"kind": "Group", "name": "ops"}),
    (CLUSTER_ROLE_BINDINGS, "", "gone"): binding("ClusterRole", "gone", {"kind": "Group", "name": "ops"}),
}
POLICY = AccessPolicy(OBJECTS)
JANE, OPS = User("jane"), User("bob", ("ops",))


@pytest.mark.parametrize(
    ("user", "request_", "expected"),
    [
        (ACCOUNT, AccessRequest("get", "", "pods", namespace="ns"), True),
        (ACCOUNT, AccessRequest("delete", "", "pods", namespace="ns"), False),
        (ACCOUNT, AccessRequest("get", "", "pods", namespace="other"), False),
        (ACCOUNT, AccessRequest("get", "", "pods"), False),
        (ACCOUNT, AccessRequest("get", "", "pods", "log", namespace="ns"), False),
        (ACCOUNT, AccessRequest("get", "", "secrets", namespace="ns", name="mine"), True),
        (ACCOUNT, AccessRequest("get", "", "secrets", namespace="ns", name="yours"), False),
        (ACCOUNT, AccessRequest("list", "", "secrets", namespace="ns"), False),
        (JANE, AccessRequest("delete", "tests.example", "widgets", namespace="any"), True),
        (JANE, AccessRequest("delete", "tests.example", "widgets", "status"), True),
        (JANE, AccessRequest("get", "", "pods", namespace="ns"), False),
        (User("ops"), AccessRequest("update", "x", "things", "status"), False),
        (OPS, AccessRequest("update", "x", "things", "status"), True),
        (OPS, AccessRequest("update", "x", "things"), False),
        (OPS, AccessRequest("get", path="/metrics"), True),
        (OPS, AccessRequest("get", path="/logs/today"), True),
        (OPS, AccessRequest("get", path="/healthz"), False),
        (User("root", ("system:masters",)), AccessRequest("delete", "", "nodes"), True),
    ],
)
def test_access(user: User, request_: AccessRequest, expected: bool) -> None:
    for _ in range(2):
        assert POLICY.decide(user, request_).allowed == expected


def test_a_decision_says_what_it_comes_from() -> None:
    allowed = POLICY.decide(ACCOUNT, AccessRequest("get", "", "pods", namespace="ns"))
    assert allowed.reason == ('RBAC: allowed by RoleBinding "read-binding/ns" of Role "read" to ServiceAccount "sa/ns"')
    refused = POLICY.decide(OPS, AccessRequest("get", "", "pods"))
    assert refused.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            AccessRequest("list", "apps", "deployments", "scale", "ns"),
            'User "jane" cannot list resource "deployments/scale" in API group "apps" in the namespace "ns"',
        ),
        (
            AccessRequest("get", "", "nodes"),
            'User "jane" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (AccessRequest("get", path="/metrics"), 'User "jane" cannot get path "/metrics"'),
    ],
)
def test_refusals_are_worded_as_kubernetes_words_them(request_: AccessRequest, expected: str) -> None:
    assert denial(JANE, request_) == expected


def change(resource: str, name: str, obj: dict[str, Any] | None) -> Change:
    return Change(1, "MODIFIED" if obj else "DELETED", resource, "", name, encode(obj or {}), None)


def test_a_changed_role_holds_at_once() -> None:
    authorizer, request = Authorizer(), AccessRequest("get", "", "pods")
    with pytest.raises(ApiError) as refused:
        authorizer.demand(JANE, request)
    assert refused.value.code == 403
    granted = binding("ClusterRole", "r", {"kind": "User", "name": "jane"})
    authorizer.follow([change(CLUSTER_ROLE_BINDINGS, "b", granted), change(CLUSTER_ROLES, "r", role("r"))])
    assert not authorizer.decide(JANE, request).allowed
    authorizer.follow([change(CLUSTER_ROLES, "r", role("r", rule("get", "", "pods")))])
    assert authorizer.decide(JANE, request).allowed
    authorizer.follow([change(CLUSTER_ROLE_BINDINGS, "b", None)])
    assert not authorizer.decide(JANE, request).allowed


def test_ever_new_names_do_not_fill_the_memory() -> None:
    policy = AccessPolicy(OBJECTS)
    for number in range(MAX_CACHED + 10):
        assert not policy.decide(ACCOUNT, AccessRequest("get", "", "pods", name=str(number))).allowed
        policy.decide(User(str(number)), AccessRequest("get", "", "pods"))
    long = AccessRequest("get", "", "pods", name="x" * 10_000)
    policy.decide(ACCOUNT, long)
    assert long not in policy._grants(ACCOUNT).decisions
    assert len(policy._users) <= MAX_CACHED
    assert all(len(grants.decisions) <= MAX_CACHED for grants in policy._users.values())


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([rule("*", "*", "*")], [rule("get", "", "pods")], []),
        ([rule("get", "", "pods")], [rule("get,list", "", "pods")], ["list"]),
        ([rule("get", "", "pods", resourceNames=["a"])], [rule("get", "", "pods", resourceNames=["a"])], []),
        ([rule("get", "", "pods", resourceNames=["a"])], [rule("get", "", "pods")], ["get"]),
        ([rule("get", "", "*/log")], [rule("get", "", "pods/log")], []),
        ([rule("get", "", "pods")], [rule("get", "", "pods/log")], ["get"]),
        ([rule("*", "*", "*")], [{"verbs": ["get"], "nonResourceURLs": ["/a"]}], ["get"]),
        ([{"verbs": ["*"], "nonResourceURLs": ["/a/*"]}], [{"verbs": ["get"], "nonResourceURLs": ["/a/b"]}], []),
    ],
)
def test_what_somebody_does_not_hold(held: list[Any], wanted: list[Any], missing: list[str]) -> None:
    assert [verb for part in uncovered(held, wanted) for verb in part["verbs"]] == missing


def test_a_rule_covers_another_if_it_allows_all_that_the_other_does() -> None:
    every = [
        rule(verb, group, resource, **({"resourceNames": [name]} if name else {}))
        for verb, group, resource, name in product(
            ("get", "*"), ("", "a", "*"), ("p", "p/s", "q/s", "*/s", "*"), ("", "x", "y")
        )
    ]
    requests = [
        AccessRequest(verb, group, resource, subresource, name=name)
        for verb, group, resource, subresource, name in product(
            ("get", "new"), ("", "a", "new"), ("p", "q", "new"), ("", "s", "new"), ("", "x", "y", "new")
        )
    ]
    allowed = [{request for request in requests if allows(one, request)} for one in every]
    for held, holds in zip(every, allowed, strict=True):
        for wanted, gives in zip(every, allowed, strict=True):
            assert (not uncovered([held], [wanted])) == (gives <= holds), (held, wanted)


def test_missing_rules_are_told_as_kubernetes_tells_them() -> None:
    parts = uncovered([], [rule("get,list", "", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/a"]}])
    assert [described(one) for one in compacted(parts, 10)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        '{NonResourceURLs:["/a"], Verbs:["get"]}',
    ]


def aggregate(name: str, key: str, **labels: str) -> dict[str, Any]:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]}
    return {**role(name, labels=labels), "aggregationRule": selectors}


def test_aggregated_roles_are_made_of_what_their_selectors_find_also_of_each_other() -> None:
    pods, nodes = rule("get", "", "pods"), rule("get", "", "nodes")
    given = [
        aggregate("admin", "to-admin"),
        aggregate("view", "to-view", **{"to-admin": "true"}),
        role("a", pods, labels={"to-view": "true"}),
        role("b", pods, nodes, labels={"to-view": "true"}),
    ]
    found = outdated(given)
    assert found == {"admin": [pods, nodes], "view": [pods, nodes]}
    settled = [{**one, "rules": found.get(one["metadata"]["name"], one["rules"])} for one in given]
    assert outdated(settled) == {}
    assert outdated([one for one in settled if one["metadata"]["name"] != "b"]) == {"admin": [pods], "view": [pods]}


def test_selectors_with_expressions() -> None:
    selector = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}
    pods = rule("get", "", "pods")
    chosen = {**role("all"), "aggregationRule": {"clusterRoleSelectors": [selector]}}
    assert outdated([chosen, role("x", pods, labels={"tier": "c"}), role("y")]) == {}
    assert outdated([chosen, role("x", pods, labels={"tier": "b"})]) == {"all": [pods]}


def test_a_start_adds_what_is_missing_and_keeps_what_was_added() -> None:
    pods, nodes = rule("get", "", "pods"), rule("get", "", "nodes")
    expected = {**role("r", pods, nodes), "metadata": {"name": "r", "annotations": {AUTOUPDATE: "true"}}}
    mine = rule("get", "mine", "things")
    kept = reconciled(role("r", mine, pods), expected)
    assert kept["rules"] == [mine, pods, nodes]
    assert kept["metadata"]["annotations"] == {AUTOUPDATE: "true"}
    protected = {**role("r"), "metadata": {"name": "r", "annotations": {AUTOUPDATE: "false"}}}
    assert reconciled(protected, expected) == protected


def test_every_role_that_is_bound_from_the_start_exists() -> None:
    names = {one["metadata"]["name"] for one in roles() if one["kind"] == "ClusterRole"}
    bound = {one["roleRef"]["name"] for one in roles() if one["kind"] == "ClusterRoleBinding"}
    assert bound <= names
    assert {"view", "edit", "admin", "cluster-admin", "addressable-resolver", "channelable-manipulator"} <= names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:serviceaccount:a:b", ("a", "b")),
        ("system:serviceaccount:a", None),
        ("system:serviceaccount:a:", None),
        ("system:serviceaccount:a:b:c", None),
        ("jane", None),
    ],
)
def test_the_account_behind_a_user(name: str, expected: tuple[str, str] | None) -> None:
    assert account_of(name) == expected


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        (
            "system:serviceaccount:ns:sa",
            (),
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        ("system:serviceaccount:ns:sa", ("extra",), ("extra", "system:authenticated")),
        ("jane", ("a", "a"), ("a", "system:authenticated")),
        ("jane", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
    ],
)
def test_the_groups_of_who_is_impersonated(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert acting_as(name, groups).groups == expected
