"""Requests: paths, forms, bodies, options, tokens and protobuf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from penstock.apiserver.access.identity import ADMIN, CONTROLLER, NODE, load_component_tokens
from penstock.apiserver.documents import encode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.app import _on_exception
from penstock.apiserver.http.request_info import parse_request
from penstock.apiserver.http.requests import Form, accepted_form, delete_options, locate, parse_document, parse_object
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.protobuf import json_form
from penstock.apiserver.verbs.deletion import DeleteOptions

REGISTRY = Registry(CORE_KINDS)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ("pods", None, "", "")),
        ("/api/v1/namespaces/a/pods", ("pods", "a", "", "")),
        ("/api/v1/namespaces/a/pods/b", ("pods", "a", "b", "")),
        ("/api/v1/namespaces/a/pods/b/status", ("pods", "a", "b", "status")),
        ("/api/v1/namespaces/a/pods/b/log", ("pods", "a", "b", "log")),
        ("/api/v1/namespaces", ("namespaces", None, "", "")),
        ("/api/v1/namespaces/a", ("namespaces", None, "a", "")),
        ("/api/v1/namespaces/a/status", ("namespaces", None, "a", "status")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/x", ("clusterroles", None, "x", "")),
    ],
)
def test_paths(path: str, expected: tuple[Any, ...]) -> None:
    place = locate(parse_request("GET", path, ""), REGISTRY)
    assert (place.kind.plural, place.namespace, place.name, place.subresource) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v1/nothing",
        "/api/v2/pods",
        "/apis/x/v1/pods",
        "/api/v1/pods/b",
        "/api/v1/namespaces/a/pods/b/exec",
        "/api/v1/namespaces/a/pods/b/log/more",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/a/clusterroles",
    ],
)
def test_paths_that_lead_nowhere(path: str) -> None:
    with pytest.raises(ApiError, match="could not find"):
        locate(parse_request("GET", path, ""), REGISTRY)


@given(st.text("/apisv1nodeusxt.", max_size=40))
def test_any_path_is_a_place_or_404(path: str) -> None:
    try:
        place = locate(parse_request("GET", path, ""), REGISTRY)
    except ApiError as refused:
        code = refused.code
    else:
        code = 404
        assert place.kind in CORE_KINDS
    assert code == 404


@pytest.mark.parametrize(
    ("header", "form"),
    [
        (None, Form()),
        ("application/json", Form()),
        ("*/*", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("application/yaml", Form(yaml=True)),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form("Table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form()),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form("PartialObjectMetadata")),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", Form(discovery="v2")),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=X,application/json", Form()),
    ],
)
def test_the_first_form_that_can_be_given_is(header: str | None, form: Form) -> None:
    assert accepted_form(header) == form


def test_a_form_that_cannot_be_given_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        accepted_form("application/xml")
    assert refused.value.code == 406


def test_yaml_is_read_as_json_would_be() -> None:
    text = b"a: 2020-01-01\nb: [1, 1.5, true, null]\nc: {d: 'e'}\n"
    assert parse_document(text, "application/yaml") == {"a": "2020-01-01", "b": [1, 1.5, True, None], "c": {"d": "e"}}
    for bad in (b"a: &x [1]\nb: *x\n", b"1: 2\n", b"a: !!python/name:os.system\n", b"a: [", b"a: .nan\nb: {1: 2}\n"):
        with pytest.raises(ApiError, match="YAML"):
            parse_document(bad, "application/yaml")


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_refusal(body: bytes) -> None:
    for media in ("application/json", "application/yaml", json_form.MEDIA):
        try:
            found = parse_object(body, media)
        except ApiError as refused:
            told = refused.message
        else:
            told = "fine"
            assert isinstance(found, dict)
        assert told


def test_delete_options_come_in_the_body_or_the_query() -> None:
    body = b'{"propagationPolicy":"Foreground","gracePeriodSeconds":0,"preconditions":{"uid":"u"},"dryRun":["All"]}'
    assert delete_options(body, "application/json", {}) == (DeleteOptions("Foreground", 0, "u"), True)
    query = {"propagationPolicy": "Orphan", "gracePeriodSeconds": "5"}
    assert delete_options(b"", "application/json", query) == (DeleteOptions("Orphan", 5), False)
    assert delete_options(b'{"orphanDependents":true}', "application/json", {})[0].policy == "Orphan"
    for bad in (b'{"propagationPolicy":"Never"}', b'{"gracePeriodSeconds":"soon"}'):
        with pytest.raises(ApiError, match=r"^(propagationPolicy: Unsupported value|gracePeriodSeconds )"):
            delete_options(bad, "application/json", {})


def test_a_protobuf_body_as_kubectl_sends_it() -> None:
    # `kubectl create namespace foo`, byte for byte.
    body = bytes.fromhex(
        "6b3873000a0f0a02763112094e616d657370616365121b0a130a03666f6f12001a0022002a0032003800420012001a020a001a002200"
    )
    assert json_form.parse(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "foo"},
    }


def test_a_grace_of_nothing_is_not_no_grace() -> None:
    body = b"k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x00"
    assert json_form.parse(body)["gracePeriodSeconds"] == 0


def test_protobuf_of_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        json_form.parse(b"k8s\x00\x0a\x07\x0a\x02v1\x12\x01X")
    assert refused.value.code == 415


def test_tokens_survive_and_only_valid_ones_pass(tmp_path: Path) -> None:
    tokens, by_user = load_component_tokens(tmp_path / "tokens.json")
    again, same = load_component_tokens(tmp_path / "tokens.json")
    assert same == by_user
    for user, is_master in ((ADMIN, True), (CONTROLLER, False), (NODE, False)):
        known = again.user(by_user[user])
        assert known is not None
        assert known.is_master == is_master
    assert tokens.user("") is None
    assert tokens.user("x") is None


def test_the_tokens_of_an_earlier_version_stay_and_those_of_the_controllers_lose_power(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    kept = [
        {"token": "a", "user": ADMIN, "groups": ["system:masters", "system:authenticated"]},
        {"token": "c", "user": CONTROLLER, "groups": ["system:masters", "system:authenticated"]},
    ]
    path.write_bytes(encode(kept))
    tokens, by_user = load_component_tokens(path)
    assert (by_user[ADMIN], by_user[CONTROLLER]) == ("a", "c")
    assert NODE in by_user
    controller = tokens.user("c")
    assert controller is not None
    assert not controller.is_master


def test_metadata_that_are_null_are_none() -> None:
    assert parse_object(b'{"metadata": null, "kind": "A"}', "application/json") == {"kind": "A"}


async def test_a_failure_is_answered_whatever_the_query_is() -> None:
    scope = {"type": "http", "method": "GET", "path": "/a", "query_string": b"\xf5", "headers": []}
    answer = await _on_exception(Request(scope), ValueError("a defect"))
    assert answer.status_code == 500
