"""Requests of users of one namespace for everything that the API serves in another: refused, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.integration.isolation.tenants import (
    BANK,
    MADE_BY_SHOP,
    PRIVATE,
    Answer,
    Caller,
    Obj,
    Served,
    objects_in,
    served,
)

USERS = ("sources", "messaging", "routing", "editor", "admin", "developer", "shared")
REVIEWS_OF_ONESELF = ("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
"""Everybody may ask what they are and may themselves."""
CONNECTING = (
    "pods/portforward",
    "pods/proxy",
    "pods/exec",
    "pods/attach",
    "pods/eviction",
    "pods/binding",
    "pods/ephemeralcontainers",
    "services/proxy",
    "deployments/scale",
    "replicasets/scale",
    "statefulsets/scale",
)
"""Subresources of Kubernetes; those that are not served here are forbidden all the same."""
LABELS = {"metadata": {"labels": {MADE_BY_SHOP: "true"}}}


@pytest.fixture(scope="module")
def before(admin: Caller, users: Mapping[str, Caller]) -> dict[tuple[str, str], Obj]:
    """What is in `bank` before all this."""
    return objects_in(admin, BANK)


def attempts(resource: Served, name: str, namespace: str = BANK) -> Iterator[tuple[str, str, Any, str]]:
    """Every request that there is for a resource, with an object of this name: (method, path, body, media type)."""
    one, all_of_them = resource.path(namespace, name), resource.path(namespace)
    body = {"apiVersion": resource.version, "kind": resource.kind}
    made = {**body, "metadata": {"name": MADE_BY_SHOP, "labels": {MADE_BY_SHOP: "true"}}}
    changed = {**body, "metadata": {"name": name, "labels": {MADE_BY_SHOP: "true"}}}
    yield "GET", one, None, "application/json"
    yield "PUT", one, changed, "application/json"
    yield "PATCH", one, LABELS, "application/merge-patch+json"
    yield "PATCH", one, LABELS, "application/strategic-merge-patch+json"
    yield (
        "PATCH",
        one,
        [{"op": "add", "path": f"/metadata/annotations/{MADE_BY_SHOP}", "value": "true"}],
        "application/json-patch+json",
    )
    yield "PATCH", f"{one}?fieldManager=shop&force=true", json.dumps(changed), "application/apply-patch+yaml"
    yield "POST", one, changed, "application/json"
    yield "DELETE", one, None, "application/json"
    if "/" in resource.name:
        return
    yield "GET", all_of_them, None, "application/json"
    yield "GET", f"{all_of_them}?watch=true&timeoutSeconds=1", None, "application/json"
    yield "GET", f"{one}?watch=true&timeoutSeconds=1", None, "application/json"
    yield "GET", f"{all_of_them}?fieldSelector=metadata.name%3D{name}&watch=1&timeoutSeconds=1", None, ""
    yield "POST", all_of_them, made, "application/json"
    yield "POST", f"{all_of_them}?dryRun=All", made, "application/json"
    yield "DELETE", all_of_them, None, "application/json"
    yield "DELETE", f"{all_of_them}?fieldSelector=metadata.name%3D{name}", None, "application/json"


def names(before: dict[tuple[str, str], Obj], resource: Served) -> str:
    """An object of the resource in `bank`; where there is none, some name, which changes nothing of the answer."""
    wanted = resource.name.partition("/")[0]
    return next((name for kind, name in sorted(before) if kind == wanted), "some")


def assert_untouched(admin: Caller, before: dict[tuple[str, str], Obj]) -> None:
    """Everything in `bank` is still there and the same object, and has nothing from `shop` in it."""
    after = objects_in(admin, BANK)
    assert {key: one["metadata"]["uid"] for key, one in before.items()} == {
        key: after[key]["metadata"]["uid"] for key in before if key in after
    }
    assert not [key for key in before if "deletionTimestamp" in after[key]["metadata"]]
    assert MADE_BY_SHOP not in json.dumps(list(after.values()))
    assert not [key for key in after if MADE_BY_SHOP in key[1]]


def test_bank_has_an_object_of_every_kind_that_can_be_made(admin: Caller, before: dict[tuple[str, str], Obj]) -> None:
    """So that a kind that is added is tried with an object that exists. EventPolicies need tokens; the others
    do nothing here."""
    creatable = {one.name for one in served(admin) if one.namespaced and {"create", "list"} <= set(one.verbs)}
    there = {kind for kind, _ in before} | {"events", "leases"}
    assert creatable - there <= {"eventpolicies", "daemonsets", "ingresses"}


@pytest.mark.parametrize("user", USERS)
def test_nothing_in_another_namespace_is_read_or_changed(
    admin: Caller, users: Mapping[str, Caller], before: dict[tuple[str, str], Obj], user: str
) -> None:
    found = [one for one in served(admin) if one.namespaced]
    known = {one.name for one in found}
    versions = {one.name: one.version for one in found}
    found += [
        Served(versions[name.partition("/")[0]], name, "Scale", True, ()) for name in CONNECTING if name not in known
    ]
    wrong: list[tuple[str, str, Answer]] = []
    for resource in found:
        for method, path, body, media in attempts(resource, names(before, resource)):
            answer = users[user].call(method, path, body, media)
            if answer.status != 403 or PRIVATE in answer.body:
                wrong.append((method, path, answer))
    assert not wrong
    assert_untouched(admin, before)


@pytest.mark.parametrize("user", USERS)
def test_nothing_of_the_whole_cluster_is_read_or_changed(
    admin: Caller, users: Mapping[str, Caller], before: dict[tuple[str, str], Obj], user: str
) -> None:
    wrong: list[tuple[str, str, Answer]] = []
    for resource in served(admin):
        if resource.name in REVIEWS_OF_ONESELF or (resource.namespaced and "/" in resource.name):
            continue
        name = BANK if resource.name.partition("/")[0] == "namespaces" else "some"
        for method, path, body, media in attempts(resource, name, ""):
            answer = users[user].call(method, path, body, media)
            if answer.status != 403 or PRIVATE in answer.body:
                wrong.append((method, path, answer))
    assert not wrong
    assert_untouched(admin, before)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/shop/../bank/secrets/db",
        "/api/v1/namespaces/shop/secrets/../../bank/secrets/db",
        "/api/v1/namespaces/shop/secrets/..%2F..%2Fbank%2Fsecrets%2Fdb",
        "/api/v1/namespaces/shop/secrets/%2e%2e/%2e%2e/bank/secrets/db",
        "/api/v1/namespaces/shop%2F..%2Fbank/secrets/db",
        "/api/v1/namespaces/shop/secrets/db?namespace=bank",
        "/api/v1/namespaces/shop/secrets;/../bank/secrets/db",
        "/api/v1/namespaces/%62ank/secrets/db",
        "/api/v1/namespaces/bank%2Fsecrets%2Fdb",
        "/api/v1/namespaces/bank%00/secrets/db",
        "/api/v1/namespaces/bank/secrets//db",
        "/api/v1/namespaces/bank/secrets/db/",
        "/api/v1/namespaces//bank/secrets/db",
        "/api/v1//namespaces/bank/secrets/db",
        "//api/v1/namespaces/bank/secrets/db",
        "/api/v1/namespaces/bank/pods/../secrets/db",
        "/api/v1/namespaces/*/secrets/db",
        "/api/v1/namespaces/bank/secrets/db/status",
        "/api/v1/namespaces/bank/pods/teller/log",
        "/api/v1/namespaces/shop/pods/..%2F..%2Fbank%2Fpods%2Fteller/log",
        "/api/v1/namespaces/bank/pods/teller:80/proxy/",
        "/api/v1/watch/namespaces/bank/secrets",
        "/api/v1/proxy/namespaces/bank/pods/teller",
        "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.namespace%3Dbank",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Dshop",
        "/apis/eventing.knative.dev/v1/namespaces/shop/brokers/../../bank/brokers/payments",
        "/apis/eventing.knative.dev/v1/namespaces/shop/brokers/..%2F..%2Fbank%2Fbrokers%2Fpayments",
    ],
)
def test_no_spelling_of_a_path_leads_to_another_namespace(
    admin: Caller, users: Mapping[str, Caller], before: dict[tuple[str, str], Obj], path: str
) -> None:
    for method in ("GET", "PATCH", "DELETE"):
        body = LABELS if method == "PATCH" else None
        answer = users["admin"].call(method, path, body, "application/merge-patch+json" if body else "text/plain")
        assert answer.status in (400, 403, 404, 405) or answer.object.get("items") == [], answer
        assert PRIVATE not in answer.body
    assert_untouched(admin, before)


def test_a_body_cannot_name_another_namespace_than_the_path(
    admin: Caller, users: Mapping[str, Caller], before: dict[tuple[str, str], Obj]
) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MADE_BY_SHOP, "namespace": BANK}}
    collection = "/api/v1/namespaces/shop/configmaps"
    assert users["admin"].call("POST", collection, made).status == 400
    assert users["admin"].call("PUT", f"{collection}/{MADE_BY_SHOP}", made).status == 400
    applied = users["admin"].call(
        "PATCH", f"{collection}/{MADE_BY_SHOP}?fieldManager=shop", json.dumps(made), "application/apply-patch+yaml"
    )
    assert applied.status == 400
    assert_untouched(admin, before)
