"""What users of one namespace are given is no way to more: names in rules, other identities, roles, commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli import app
from tests.integration.isolation.tenants import BANK, PRIVATE, SHOP, Caller, Obj
from tests.running import Stack

SECRETS = f"/api/v1/namespaces/{BANK}/secrets"
RBAC = "rbac.authorization.k8s.io"


def test_a_rule_with_names_allows_lists_and_watches_of_those(users: Mapping[str, Caller]) -> None:
    for query in ("", "&watch=true&timeoutSeconds=1"):
        answer = users["shared"].call("GET", f"{SECRETS}?fieldSelector=metadata.name%3Dfor-shop{query}")
        assert answer.status == 200
        assert "for-shop" in answer.body
        assert PRIVATE not in answer.body


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name!=x\\,metadata.name=for-shop",
        "metadata.name!=x\\\\\\,metadata.name=for-shop",
        "metadata.name=db\\,metadata.name=for-shop",
        "metadata.name!=x,metadata.name!=for-shop",
        "metadata.name!=for-shop",
        "metadata.name!==for-shop",
        "metadata.name=!=for-shop",
        "type!=x\\,metadata.name=for-shop",
        "type=Opaque",
        "metadata.name=",
        "",
    ],
)
@pytest.mark.parametrize("verb", ["list", "watch", "deletecollection"])
def test_no_field_selector_makes_more_of_a_rule_with_names(
    users: Mapping[str, Caller], selector: str, verb: str
) -> None:
    query = "?dryRun=All" if verb == "deletecollection" else "?watch=true&timeoutSeconds=1" if verb == "watch" else "?"
    method = "DELETE" if verb == "deletecollection" else "GET"
    answer = users["shared"].call(method, f"{SECRETS}{query}&fieldSelector={quote(selector, safe='')}")
    assert answer.status in (400, 403), answer
    assert PRIVATE not in answer.body


def test_the_last_of_several_field_selectors_is_not_judged_where_another_is_used(users: Mapping[str, Caller]) -> None:
    one, other = "fieldSelector=metadata.name%3Dfor-shop", "fieldSelector=metadata.name%3Ddb"
    for query in (f"{one}&{other}", f"{other}&{one}", f"{one}&fieldSelector=", f"fieldSelector=&{one}"):
        assert PRIVATE not in users["shared"].call("GET", f"{SECRETS}?{query}").body, query
    for watch in ("watch=true", "watch=false&watch=1", "watch=1&watch=false"):
        answer = users["shared"].call("GET", f"{SECRETS}?{one}&{other}&{watch}&timeoutSeconds=1")
        assert PRIVATE not in answer.body, watch


@pytest.mark.parametrize(
    "headers",
    [
        {"impersonate_user": "system:serviceaccount:bank:teller"},
        {"impersonate_user": "kubernetes-admin"},
        {"impersonate_user": "system:node:penstock"},
        {"impersonate_user": "system:serviceaccount:knative-eventing:eventing-controller"},
        {"impersonate_user": "system:serviceaccount:shop:developer", "impersonate_group": "system:masters"},
        {
            "impersonate_user": "system:serviceaccount:shop:developer",
            "impersonate_group": "system:serviceaccounts:bank",
        },
        {"impersonate_user": "system:serviceaccount:shop:../../bank/teller"},
        {"impersonate_user": "system:serviceaccount:shop/../bank:teller"},
        {"impersonate_user": "SYSTEM:serviceaccount:bank:teller"},
        {"impersonate_group": "system:masters"},
        {"impersonate_uid": "1", "impersonate_user": "system:serviceaccount:shop:developer"},
        {"impersonate_extra_scopes": "all", "impersonate_user": "system:serviceaccount:shop:developer"},
    ],
    ids=lambda headers: " ".join(headers.values()).replace("system:", ""),
)
@pytest.mark.parametrize("user", ["editor", "admin", "developer"])
def test_no_other_identity_leads_to_another_namespace(
    users: Mapping[str, Caller], user: str, headers: dict[str, str]
) -> None:
    answer = users[user].call("GET", f"{SECRETS}/db", **headers)
    assert answer.status in (400, 403), answer
    assert PRIVATE not in answer.body


def test_accounts_of_the_own_namespace_may_be_impersonated(users: Mapping[str, Caller]) -> None:
    who = {"impersonate_user": "system:serviceaccount:shop:developer"}
    assert users["editor"].call("GET", "/apis/eventing.knative.dev/v1/namespaces/shop/brokers", **who).status == 200
    assert users["editor"].call("GET", "/apis/eventing.knative.dev/v1/namespaces/bank/brokers", **who).status == 403


@pytest.mark.parametrize("namespace", [BANK, "knative-eventing", "kube-system"])
@pytest.mark.parametrize("user", ["editor", "admin", "messaging"])
def test_tokens_are_given_for_accounts_of_the_own_namespace_only(
    users: Mapping[str, Caller], user: str, namespace: str
) -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    for account in ("teller", "eventing-controller", "..%2F..%2Fbank%2Fserviceaccounts%2Fteller"):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        assert users[user].call("POST", path, asked).status == 403
    nested = "/api/v1/namespaces/shop/serviceaccounts/..%2F..%2Fbank%2Fserviceaccounts%2Fteller/token"
    assert users[user].call("POST", nested, asked).status in (400, 403, 404)


def binding(name: str, role: str, kind: str = "ClusterRole") -> Obj:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": SHOP}],
    }


def role(rules: list[dict[str, Any]]) -> Obj:
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "more"}, "rules": rules}


@pytest.mark.parametrize(
    "obj",
    [
        binding("more", "cluster-admin"),
        binding("more", "penstock-controller"),
        binding("more", "no-such-role"),
        binding("more", "shared", "Role"),
        role([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
        role([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]),
        role([{"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["escalate", "bind"]}]),
        role([{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]),
    ],
    ids=["cluster-admin", "controller", "missing", "of bank", "all", "nodes", "escalate", "impersonate"],
)
def test_nobody_gives_themselves_more_by_roles(users: Mapping[str, Caller], obj: Obj) -> None:
    user, path = users["admin"], f"/apis/{RBAC}/v1/namespaces/{SHOP}/{obj['kind'].lower()}s"
    assert user.call("POST", path, obj).status in (403, 404)
    applied = user.call("PATCH", f"{path}/more?fieldManager=me", yaml.safe_dump(obj), "application/apply-patch+yaml")
    assert applied.status in (403, 404)
    assert user.call("GET", f"{path}/more").status == 404


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("v1", "Pod", {"containers": [{"name": "main", "image": "event_display"}]}),
        (
            "eventing.knative.dev/v1",
            "Trigger",
            {"brokerRef": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "payments"}},
        ),
    ],
    ids=["Pod", "Trigger"],
)
@pytest.mark.parametrize("of", ["Channel", "Sequence"])
def test_the_template_of_a_channel_makes_nothing_that_its_user_may_not(
    admin: Caller, users: Mapping[str, Caller], of: str, version: str, kind: str, spec: Obj
) -> None:
    """The controllers make what it names, and may do more than the user."""
    group = "messaging" if of == "Channel" else "flows"
    steps: Obj = {} if of == "Channel" else {"steps": [{"uri": "http://127.0.0.1:9/"}]}
    obj = {
        "apiVersion": f"{group}.knative.dev/v1",
        "kind": of,
        "metadata": {"name": f"of-{kind.lower()}"},
        "spec": {**steps, "channelTemplate": {"apiVersion": version, "kind": kind, "spec": spec}},
    }
    answer = users["messaging" if of == "Channel" else "routing"].create(obj)
    assert answer.status == 400, answer
    assert f"invalid value: {kind}: spec.channelTemplate.kind" in answer.body


def test_a_role_that_is_there_is_not_widened(users: Mapping[str, Caller]) -> None:
    user, path = users["admin"], f"/apis/{RBAC}/v1/namespaces/{SHOP}/roles/knative-developer"
    before = user.get(path)
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    assert user.patch(path, {"rules": [rule]}).status == 403
    appended = [{"op": "add", "path": "/rules/-", "value": rule}]
    assert user.call("PATCH", path, appended, "application/json-patch+json").status == 403
    assert user.call("PUT", path, {**before, "rules": [*before["rules"], rule]}).status == 403
    assert user.get(path)["rules"] == before["rules"]


def test_a_binding_cannot_be_pointed_at_another_role(users: Mapping[str, Caller]) -> None:
    user, path = users["admin"], f"/apis/{RBAC}/v1/namespaces/{SHOP}/rolebindings/viewer"
    wanted = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}}
    assert user.patch(path, wanted).status in (403, 422)
    assert user.get(path)["roleRef"]["name"] == "view"


def test_reviews_tell_nothing_of_others(users: Mapping[str, Caller]) -> None:
    attributes = {"namespace": BANK, "verb": "get", "resource": "secrets", "name": "db"}
    about = {"spec": {"user": "system:serviceaccount:bank:teller", "resourceAttributes": attributes}}
    user, version = users["admin"], "authorization.k8s.io/v1"
    local = {"apiVersion": version, "kind": "LocalSubjectAccessReview", "metadata": {"namespace": SHOP}, **about}
    answer = user.call("POST", f"/apis/{version}/namespaces/{SHOP}/localsubjectaccessreviews", local)
    assert answer.status in (400, 403, 422)
    own = {"apiVersion": version, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    assert user.call("POST", f"/apis/{version}/selfsubjectaccessreviews", own).object["status"]["allowed"] is False
    rules = {"apiVersion": version, "kind": "SelfSubjectRulesReview", "spec": {"namespace": BANK}}
    listed = user.call("POST", f"/apis/{version}/selfsubjectrulesreviews", rules).object["status"]["resourceRules"]
    assert all(rule["resources"] != ["secrets"] and "*" not in rule["verbs"] for rule in listed)


@pytest.mark.parametrize(
    "command",
    [
        ["get", "triggers"],
        ["get", "brokers"],
        ["pause", "trigger/ledger"],
        ["replay", "trigger/ledger", "--since", "1h"],
        ["redrive", "trigger/ledger"],
        ["delete", "trigger/ledger"],
        ["create", "broker", "more"],
        ["create", "trigger", "more", "--broker", "payments", "--subscriber", "http://127.0.0.1:9/"],
        ["send", "{}", "--broker", "payments"],
        ["keys", "create", "payments", "shop"],
        ["keys", "list", "payments"],
    ],
    ids=" ".join,
)
def test_commands_do_nothing_in_another_namespace(
    stack: Stack, users: Mapping[str, Caller], bank: object, tmp_path: Path, command: list[str]
) -> None:
    config = yaml.safe_load(stack.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": users["admin"].token}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    ran = CliRunner().invoke(app, [*command, "--namespace", BANK, "--kubeconfig", str(file)])
    assert ran.exit_code == 1, ran.output
    assert "forbidden" in ran.output.lower() or "may not" in ran.output
    assert PRIVATE not in ran.output
