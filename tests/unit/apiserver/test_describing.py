"""How the server tells about itself and its objects: discovery, OpenAPI, tables, ages, JSONPath."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.apiserver.errors import ApiError
from penstock.apiserver.http.rendering import Renderer
from penstock.apiserver.http.requests import Form
from penstock.apiserver.http.served_documents import prefers_protobuf
from penstock.apiserver.kinds import custom_kinds, discovery, jsonpath, openapi, tables
from penstock.apiserver.kinds.columns import human_age, human_duration
from penstock.apiserver.kinds.core_kinds import CORE_KINDS
from penstock.apiserver.kinds.registry import Registry
from penstock.apiserver.protobuf import openapi_v2
from penstock.apiserver.protobuf.messages import message

DEFINITION = {
    "metadata": {"name": "widgets.tests.example"},
    "spec": {
        "group": "tests.example",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
        "versions": [
            {
                "name": name,
                "served": name != "v1alpha1",
                "storage": name == "v1",
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }
            for name in ("v1alpha1", "v1beta1", "v1")
        ],
    },
}
WIDGETS = custom_kinds.kinds_of(custom_kinds.complete(DEFINITION, "now"))


def registry() -> Registry:
    found = Registry(CORE_KINDS)
    found.define("widgets.tests.example", WIDGETS)
    return found


def test_only_served_versions_are_kinds_and_the_newest_comes_first() -> None:
    assert [kind.version for kind in WIDGETS] == ["v1", "v1beta1"]
    assert discovery.groups(registry().all())["tests.example"] == ["v1", "v1beta1"]


def test_versions_sort_as_clients_prefer_them() -> None:
    versions = ["v1alpha1", "v1", "v2beta1", "v2", "v1beta1", "v10", "v2beta2", "odd"]
    assert sorted(versions, key=discovery.version_rank) == [
        "v10",
        "v2",
        "v1",
        "v2beta2",
        "v2beta1",
        "v1beta1",
        "v1alpha1",
        "odd",
    ]


def test_discovery_tells_names_scopes_and_verbs() -> None:
    listed = discovery.resources(registry().all(), "tests.example", "v1")
    assert listed is not None
    widget, status = listed["resources"]
    assert (widget["name"], widget["kind"], widget["shortNames"]) == ("widgets", "Widget", ["wd"])
    assert status["name"] == "widgets/status"
    assert discovery.resources(registry().all(), "tests.example", "v9") is None
    everything = discovery.aggregated(registry().all(), core=False, version="v2")
    group = next(item for item in everything["items"] if item["metadata"]["name"] == "tests.example")
    assert group["versions"][0]["resources"][0]["singularResource"] == "widget"
    core = discovery.aggregated(registry().all(), core=True, version="v2")
    assert [item["metadata"]["name"] for item in core["items"]] == [""]


def test_a_definition_that_goes_takes_its_kinds_along() -> None:
    found = registry()
    assert found.find("tests.example", "v1", "widgets") is not None
    found.undefine("widgets.tests.example")
    assert found.find("tests.example", "v1", "widgets") is None


def test_openapi_resolves_every_reference() -> None:
    kinds = registry().all()
    for group, version in {(kind.group, kind.version) for kind in kinds}:
        document = openapi.document(kinds, group, version)
        assert document is not None
        schemas = document["components"]["schemas"]
        assert set(references(document)) <= {f"#/components/schemas/{name}" for name in schemas}
    assert openapi.document(kinds, "nothing", "v1") is None
    second = openapi.document_v2(kinds)
    assert set(references(second)) <= {f"#/definitions/{name}" for name in second["definitions"]}


def test_the_second_document_is_the_same_in_protobuf() -> None:
    swagger = openapi.document_v2(registry().all())
    parsed: Any = message("openapi.v2.Document", "openapi_v2")
    parsed.ParseFromString(openapi_v2.document(swagger))
    schemas = {entry.name: entry.value for entry in parsed.definitions.additional_properties}
    assert schemas.keys() == swagger["definitions"].keys()
    pod = {entry.name: entry.value for entry in schemas["io.k8s.api.core.v1.Pod"].properties.additional_properties}
    assert pod["spec"]._ref == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert list(pod["kind"].type.value) == ["string"]
    spec = {entry.name: entry.value for entry in schemas["io.k8s.api.core.v1.PodSpec"].properties.additional_properties}
    containers = spec["containers"]
    assert containers.items.schema[0]._ref == "#/definitions/io.k8s.api.core.v1.Container"
    extensions = {entry.name: entry.value.yaml for entry in containers.vendor_extension}
    assert extensions["x-kubernetes-patch-merge-key"] == '"name"'
    assert list(schemas["io.k8s.api.core.v1.PodSpec"].required) == ["containers"]
    paths = {entry.name: entry.value for entry in parsed.paths.path}
    patch = paths["/apis/tests.example/v1/namespaces/{namespace}/widgets/{name}"].patch
    queries = [one.parameter.non_body_parameter.query_parameter_sub_schema.name for one in patch.parameters]
    assert "fieldValidation" in queries
    named = {entry.name: entry.value.yaml for entry in patch.vendor_extension}["x-kubernetes-group-version-kind"]
    assert json.loads(named) == {"group": "tests.example", "version": "v1", "kind": "Widget"}


@pytest.mark.parametrize(
    ("accept", "protobuf"),
    [
        (openapi_v2.MEDIA, True),
        (f"{openapi_v2.RESPONSE_MEDIA}; q=1", True),
        (f"application/json,{openapi_v2.MEDIA}", False),
        ("*/*", False),
        (None, False),
    ],
)
def test_protobuf_is_for_those_who_ask_for_it_first(accept: str | None, protobuf: bool) -> None:
    assert prefers_protobuf(accept) == protobuf


def test_the_address_of_a_document_changes_with_its_content() -> None:
    before = openapi.index(registry().all())["paths"]["apis/tests.example/v1"]
    changed = {**DEFINITION, "spec": {**DEFINITION["spec"], "scope": "Cluster"}}  # type: ignore[dict-item]
    other = registry()
    other.define("widgets.tests.example", custom_kinds.kinds_of(changed))
    assert openapi.index(other.all())["paths"]["apis/tests.example/v1"] != before


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_a_table_has_the_columns_of_the_kind() -> None:
    widget = {
        "metadata": {"name": "w", "resourceVersion": "5", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"size": 3},
        "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]},
    }
    table = tables.table(WIDGETS[0], [widget], {}, include="Metadata")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age"]
    assert table["rows"][0]["cells"][:3] == ["w", 3, "True"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = tables.table(WIDGETS[0], [{"metadata": {"name": "w"}}], {}, include="None")
    assert bare["rows"] == [{"cells": ["w", None, None, None]}]


def test_versions_of_a_kind_differ_in_their_api_version_only() -> None:
    stored = b'{"apiVersion":"tests.example/v1","kind":"Widget","metadata":{"name":"w"}}'
    older = next(kind for kind in WIDGETS if kind.version == "v1beta1")
    assert Renderer(WIDGETS[0]).one(stored) == stored
    assert b'"apiVersion":"tests.example/v1beta1"' in Renderer(older).one(stored)
    listed = b"".join(Renderer(older).many([stored] * 200, {"resourceVersion": "1"}))
    assert listed.count(b"v1beta1") == 201


def test_a_watched_table_declares_its_columns_once() -> None:
    body = b'{"metadata":{"name":"w","resourceVersion":"1"}}'
    renderer = Renderer(WIDGETS[0], Form("Table"))
    assert b'"name":"Size"' in renderer.watched(body)
    assert b'"columnDefinitions":[]' in renderer.watched(body)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (49 * 3600, "2d1h"),
        (20 * 86400, "20d"),
        (3 * 365 * 86400, "3y"),
        (9 * 365 * 86400, "9y"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_shown_as_kubectl_shows_them(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_an_age_that_is_no_time_is_said_to_be_invalid() -> None:
    assert human_age("yesterday", datetime.now(UTC)) == "<invalid>"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", 1),
        ("{.a.b}", 1),
        (".list[0].x", "p"),
        (".list[-1].x", "q"),
        (".list[*].x", "p"),
        ('.list[?(@.x=="q")].y', True),
        (".list[?(@.y==true)].x", "q"),
        (".list[?(@.x!='p')].x", "q"),
        (r".a.dot\.ted/key", "v"),
        ("['a']['b']", 1),
        (".missing.b", None),
        (".list[9].x", None),
        (".a.b.c", None),
        (".list[?(", None),
    ],
)
def test_json_paths_of_columns(path: str, found: Any) -> None:
    value = {"a": {"b": 1, "dot.ted/key": "v"}, "list": [{"x": "p"}, {"x": "q", "y": True}]}
    assert jsonpath.first(path, value) == found


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "widget"},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"a": 5}},
        {"type": "array", "items": []},
        {"anyOf": {}},
        {"anyOf": [1]},
        {"additionalProperties": "yes"},
        {"required": "a"},
        {"properties": {"a": {"$ref": "#/x"}}},
    ],
)
def test_schemas_that_cannot_be_walked_are_refused(schema: dict[str, Any]) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {**DEFINITION, "spec": {**DEFINITION["spec"], "versions": [version]}}  # type: ignore[dict-item]
    with pytest.raises(ApiError, match=r"openAPIV3Schema|\$ref"):
        custom_kinds.check(definition)


def test_a_definition_cannot_take_the_place_of_a_core_kind() -> None:
    found = registry()
    pods = next(kind for kind in CORE_KINDS if kind.plural == "pods")
    found.define("x", [replace(WIDGETS[0], group="", version="v1", plural="pods")])
    assert found.find("", "v1", "pods") is pods
