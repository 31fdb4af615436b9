"""RBAC: stored rules decide."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.access.identity import User, acting_as
from penstock.apiserver.access.rbac import AccessRequest, Rules, allowed

ACCOUNT = acting_as("system:serviceaccount:ns:sa", [])


def role(
    name: str, *rules: dict[str, Any], namespace: str = "", labels: dict[str, str] | None = None
) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "rules": list(rules)}


def binding(kind: str, role_name: str, subject: dict[str, str], namespace: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{role_name}-binding", "namespace": namespace},
        "roleRef": {"kind": kind, "name": role_name},
        "subjects": [subject],
    }


def rule(verbs: str, groups: str, resources: str, **more: Any) -> dict[str, Any]:
    return {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": resources.split(","), **more}


SA = {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}
READ_PODS = role("read", rule("get,list", "", "pods"), namespace="ns")
AGGREGATE = {
    **role("addressables"),
    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"duck": "true"}}]},
}
RULES = Rules(
    {("ns", "read"): READ_PODS},
    [binding("Role", "read", SA, "ns"), binding("ClusterRole", "named", SA, "ns")],
    {
        "named": role("named", rule("get", "", "secrets", resourceNames=["mine"])),
        "addressables": AGGREGATE,
        "widgets": role("widgets", rule("*", "tests.example", "*"), labels={"duck": "true"}),
        "subs": role("subs", rule("update", "*", "*/status")),
        "urls": role("urls", {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]}),
    },
    [
        binding("ClusterRole", "addressables", {"kind": "User", "name": "jane"}),
        binding("ClusterRole", "subs", {"kind": "Group", "name": "ops"}),
        binding("ClusterRole", "urls", {"kind": "Group", "name": "ops"}),
        binding("ClusterRole", "gone", {"kind": "Group", "name": "ops"}),
    ],
)
JANE, OPS = User("jane"), User("bob", ("ops",))


@pytest.mark.parametrize(
    ("user", "request_", "expected"),
    [
        (ACCOUNT, AccessRequest("get", "", "pods", namespace="ns"), True),
        (ACCOUNT, AccessRequest("delete", "", "pods", namespace="ns"), False),
        (ACCOUNT, AccessRequest("get", "", "pods", namespace="other"), False),
        (ACCOUNT, AccessRequest("get", "", "pods"), False),
        (ACCOUNT, AccessRequest("get", "", "secrets", namespace="ns", name="mine"), True),
        (ACCOUNT, AccessRequest("get", "", "secrets", namespace="ns", name="yours"), False),
        (ACCOUNT, AccessRequest("list", "", "secrets", namespace="ns"), False),
        (JANE, AccessRequest("delete", "tests.example", "widgets", namespace="any"), True),
        (JANE, AccessRequest("delete", "tests.example", "widgets", "status"), True),
        (JANE, AccessRequest("get", "", "pods", namespace="ns"), False),
        (OPS, AccessRequest("update", "x", "things", "status"), True),
        (OPS, AccessRequest("update", "x", "things"), False),
        (OPS, AccessRequest("get", path="/metrics"), True),
        (OPS, AccessRequest("get", path="/logs/today"), True),
        (OPS, AccessRequest("get", path="/healthz"), False),
        (User("root", ("system:masters",)), AccessRequest("delete", "", "nodes"), True),
    ],
)
def test_access(user: User, request_: AccessRequest, expected: bool) -> None:
    granted, reason = allowed(user, request_, RULES)
    assert granted == expected
    assert bool(reason) == expected
