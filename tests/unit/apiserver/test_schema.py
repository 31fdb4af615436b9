"""Structural schemas: what is dropped, filled and refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apiserver.kinds.schema import Walker

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "mode": {"type": "string", "enum": ["on", "off"], "default": "on"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"a": {"type": "number", "default": 1}}},
        },
        "maybe": {"type": "string", "nullable": True},
        "either": {
            "type": "object",
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
            "properties": {"x": {}, "y": {}},
        },
    },
}
WALKER = Walker({"type": "object", "properties": {"spec": SPEC}}, {})


def test_unknown_fields_are_dropped_unless_they_are_to_be_kept() -> None:
    obj: dict[str, Any] = {
        "kind": "K",
        "odd": 1,
        "spec": {"size": 1, "odd": 2, "free": {"x": {"y": 1}}, "map": {"k": "v"}, "parts": [{"a": 1, "b": 2}]},
    }
    assert sorted(WALKER.prune(obj)) == ["odd", "spec.odd", "spec.parts[0].b"]
    assert obj["spec"] == {"size": 1, "free": {"x": {"y": 1}}, "map": {"k": "v"}, "parts": [{"a": 1}]}


def test_nulls_are_dropped_where_the_schema_has_no_place_for_them() -> None:
    obj: dict[str, Any] = {
        "spec": {
            "name": None,
            "mode": None,
            "maybe": None,
            "port": None,
            "map": {"k": None, "l": "v"},
            "free": {"x": None},
            "parts": [None, {"a": None}],
        }
    }
    WALKER.drop_nulls(obj)
    kept = {"mode": None, "maybe": None, "map": {"l": "v"}, "free": {"x": None}, "parts": [None, {"a": None}]}
    assert obj["spec"] == kept
    WALKER.fill(obj)
    assert obj["spec"]["mode"] == "on"
    assert obj["spec"]["parts"] == [None, {"a": 1}]
    whole: dict[str, Any] = {"spec": None}
    WALKER.drop_nulls(whole)
    assert whole == {}


def test_defaults_are_filled_where_the_parent_exists() -> None:
    obj: dict[str, Any] = {"spec": {"size": 1, "parts": [{}]}}
    WALKER.fill(obj)
    assert obj["spec"] == {"size": 1, "mode": "on", "parts": [{"a": 1}]}
    empty: dict[str, Any] = {}
    WALKER.fill(empty)
    assert empty == {}


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({}, "spec.size", "Required value"),
        ({"size": "1"}, "spec.size", "must be of type integer"),
        ({"size": True}, "spec.size", "must be of type integer"),
        ({"size": 1.5}, "spec.size", "must be of type integer"),
        ({"size": 0}, "spec.size", "greater than or equal to 1"),
        ({"size": 10}, "spec.size", "less than or equal to 9"),
        ({"size": 1, "name": "A"}, "spec.name", "should match"),
        ({"size": 1, "name": "abcdef"}, "spec.name", "at most 5 chars"),
        ({"size": 1, "mode": "half"}, "spec.mode", 'supported values: "on", "off"'),
        ({"size": 1, "port": 1.5}, "spec.port", "integer,string"),
        ({"size": 1, "map": {"k": 1}}, "spec.map.k", "must be of type string"),
        ({"size": 1, "parts": [{}, {"a": "x"}]}, "spec.parts[1].a", "must be of type number"),
        ({"size": 1, "parts": [{}, {}, {}]}, "spec.parts", "at most 2 items"),
        ({"size": 1, "name": None}, "spec.name", '"null"'),
        ({"size": 1, "either": {}}, "spec.either", "oneOf"),
        ({"size": 1, "either": {"x": 1, "y": 1}}, "spec.either", "oneOf"),
        ([], "spec", "must be of type object"),
    ],
)
def test_what_breaks_the_schema_is_named(spec: Any, path: str, words: str) -> None:
    complaints = WALKER.check({"spec": spec})
    assert any(found == path and words in sentence for found, _, sentence in complaints), complaints


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 1},
        {"size": 1, "port": "http"},
        {"size": 1, "port": 80},
        {"size": 1, "maybe": None},
        {"size": 1, "free": {"a": [1, None]}},
        {"size": 1, "either": {"x": 1}},
    ],
)
def test_what_fits_passes(spec: Any) -> None:
    assert WALKER.check({"spec": spec}) == []
