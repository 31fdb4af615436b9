"""Structural schemas: dropping unknown fields, filling defaults, and checking values.

Three walks over an object beside its OpenAPI v3 schema. Custom kinds bring theirs in the CustomResourceDefinition;
core kinds have schemas whose parts refer to each other by `$ref`, resolved in `definitions`.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from penstock.apiserver.documents import encode
from penstock.apiserver.kinds.core_kinds import DEFINITIONS, OBJECT_META
from penstock.apiserver.kinds.registry import ServedKind
from penstock.runtime.times import is_rfc3339

Schema = Mapping[str, Any]
Complaint = tuple[str, str, str]
"""Field path, reason, sentence."""

_REF = "#/components/schemas/"
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}

_EMPTY: Mapping[str, Callable[[], Any]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "object": dict,
    "array": list,
}


class Walker:
    """The walks over objects of one kind."""

    def __init__(self, schema: Schema, definitions: Mapping[str, Schema]) -> None:
        self.schema, self._definitions = schema, definitions

    def resolve(self, schema: Schema) -> Schema:
        """The schema itself, or what its `$ref` points to, be it wrapped in an `allOf` of one."""
        if "$ref" in schema:
            return self._definitions[schema["$ref"].removeprefix(_REF)]
        wrapped: Sequence[Schema] = schema.get("allOf") or ()
        if len(wrapped) == 1 and "$ref" in wrapped[0]:
            return self._definitions[wrapped[0]["$ref"].removeprefix(_REF)]
        return schema

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Removes fields that the schema does not have from `obj`, and returns their paths."""
        dropped: list[str] = []
        self._prune(obj, self.schema, "", dropped, root=True)
        return dropped

    def drop_nulls(self, obj: dict[str, Any]) -> None:
        """Removes nulls from `obj` where the schema has no default and does not allow null: null means absent."""
        self._drop_nulls(obj, self.schema)

    def fill_null_items(self, obj: dict[str, Any]) -> None:
        """Replaces every null in a list by the empty value of its type, as Kubernetes does for its own kinds."""
        self._fill_null_items(obj, self.schema)

    def fill(self, obj: dict[str, Any]) -> None:
        """Fills in the schema's defaults, changing `obj`."""
        self._fill(obj, self.schema)

    def check(self, obj: dict[str, Any]) -> list[Complaint]:
        """The complaints about values that violate the schema."""
        complaints: list[Complaint] = []
        self._check({key: value for key, value in obj.items() if key != "metadata"}, self.schema, "", complaints)
        return complaints

    def _prune(self, value: Any, schema: Schema, path: str, dropped: list[str], *, root: bool = False) -> None:
        schema = self.resolve(schema)
        if isinstance(value, list):
            items = schema.get("items")
            for index, item in enumerate(value):
                if items is not None:
                    self._prune(item, items, f"{path}[{index}]", dropped)
            return
        if not isinstance(value, dict):
            return
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
        known = _ROOT_FIELDS if root or schema.get("x-kubernetes-embedded-resource") else ()
        for key in list(value):
            where = f"{path}.{key}" if path else key
            if key in properties:
                self._prune(value[key], properties[key], where, dropped)
            elif isinstance(additional, Mapping):
                self._prune(value[key], additional, where, dropped)
            elif not keeps and key not in known:
                del value[key]
                dropped.append(where)

    def _drop_nulls(self, value: Any, schema: Schema) -> None:
        schema = self.resolve(schema)
        if isinstance(value, list):
            for item in value:
                self._drop_nulls(item, schema.get("items") or {})
        elif isinstance(value, dict):
            properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
            for key in list(value):
                part = properties.get(key, additional if isinstance(additional, Mapping) else None)
                if part is None:
                    continue
                if value[key] is None and not part.get("nullable") and part.get("default") is None:
                    del value[key]
                else:
                    self._drop_nulls(value[key], part)

    def _fill_null_items(self, value: Any, schema: Schema) -> None:
        schema = self.resolve(schema)
        if isinstance(value, list):
            items = self.resolve(schema.get("items") or {})
            empty = _EMPTY.get(str(items.get("type")))
            for index, item in enumerate(value):
                if item is None and empty is not None:
                    value[index] = empty()
                else:
                    self._fill_null_items(item, items)
        elif isinstance(value, dict):
            properties = schema.get("properties") or {}
            for key in value.keys() & properties.keys():
                self._fill_null_items(value[key], properties[key])

    def _fill(self, value: Any, schema: Schema) -> None:
        schema = self.resolve(schema)
        if isinstance(value, list):
            items = schema.get("items")
            if items is not None:
                for item in value:
                    self._fill(item, items)
            return
        if not isinstance(value, dict):
            return
        properties = schema.get("properties") or {}
        for key, part in properties.items():
            if "default" in part and (key not in value or (value[key] is None and not part.get("nullable"))):
                value[key] = copy.deepcopy(part["default"])
            if key in value:
                self._fill(value[key], part)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            for key in value:
                if key not in properties:
                    self._fill(value[key], additional)

    def _check(self, value: Any, schema: Schema, path: str, complaints: list[Complaint]) -> None:
        schema = self.resolve(schema)
        if value is None and schema.get("nullable"):
            return
        if not _right_type(value, schema):
            complaints.append(_wrong_type(value, schema, path))
            return
        self._check_value(value, schema, path, complaints)
        if isinstance(value, dict):
            self._check_object(value, schema, path, complaints)
        elif isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                self._check(item, schema["items"], f"{path}[{index}]", complaints)
        self._check_combined(value, schema, path, complaints)

    def _check_object(self, value: dict[str, Any], schema: Schema, path: str, complaints: list[Complaint]) -> None:
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        complaints.extend(
            (_join(path, key), "FieldValueRequired", "Required value")
            for key in schema.get("required") or ()
            if key not in value and key != "metadata"
        )
        for key, item in value.items():
            if key in properties:
                self._check(item, properties[key], _join(path, key), complaints)
            elif isinstance(additional, Mapping):
                self._check(item, additional, _join(path, key), complaints)

    def _check_value(self, value: Any, schema: Schema, path: str, complaints: list[Complaint]) -> None:
        allowed = schema.get("enum")
        if allowed is not None and value not in allowed:
            listed = ", ".join(_shown(item) for item in allowed)
            sentence = f"Unsupported value: {_shown(value)}: supported values: {listed}"
            complaints.append((path, "FieldValueNotSupported", sentence))
        complaints.extend(_invalid(path, value, broken) for broken in _broken_bounds(value, schema))

    def _check_combined(self, value: Any, schema: Schema, path: str, complaints: list[Complaint]) -> None:
        for part in schema.get("allOf") or ():
            self._check(value, part, path, complaints)
        fitting = {
            word: sum(1 for part in schema[word] if self._fits(value, part, path))
            for word in ("anyOf", "oneOf")
            if schema.get(word)
        }
        if fitting.get("anyOf", 1) == 0:
            complaints.append(_invalid(path, value, "must validate at least one schema (anyOf)"))
        if fitting.get("oneOf", 1) != 1:
            complaints.append(_invalid(path, value, "must validate one and only one schema (oneOf)"))
        if schema.get("not") and self._fits(value, schema["not"], path):
            complaints.append(_invalid(path, value, "must not validate the schema (not)"))

    def _fits(self, value: Any, schema: Schema, path: str) -> bool:
        found: list[Complaint] = []
        self._check(value, schema, path, found)
        return not found


def _right_type(value: Any, schema: Schema) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    expected: str | None = schema.get("type")
    if expected is None:
        return value is not None or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if isinstance(value, bool):
        return expected == "boolean"
    return isinstance(value, _TYPES.get(expected, (object,)))


def _wrong_type(value: Any, schema: Schema, path: str) -> Complaint:
    expected = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "object")
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    actual = "null" if value is None else names.get(type(value), "object")
    sentence = f'Invalid value: "{actual}": {path or "the object"} in body must be of type {expected}: "{actual}"'
    return path, "FieldValueTypeInvalid", sentence


def _broken_bounds(value: Any, schema: Schema) -> list[str]:
    broken: list[str] = []

    def bound(word: str, size: float, *, least: bool, unit: str) -> None:
        limit = schema.get(word)
        if limit is not None and (size < limit if least else size > limit):
            broken.append(f"should be {'at least' if least else 'at most'} {limit} {unit}".rstrip())

    if isinstance(value, str):
        bound("minLength", len(value), least=True, unit="chars long")
        bound("maxLength", len(value), least=False, unit="chars long")
        if schema.get("pattern") and not _pattern(schema["pattern"]).search(value):
            broken.append(f"should match '{schema['pattern']}'")
        if schema.get("format") == "date-time" and not is_rfc3339(value):
            broken.append(f"must be of type date-time: {_shown(value)}")
    elif isinstance(value, list):
        bound("minItems", len(value), least=True, unit="items")
        bound("maxItems", len(value), least=False, unit="items")
    elif isinstance(value, dict):
        bound("minProperties", len(value), least=True, unit="properties")
        bound("maxProperties", len(value), least=False, unit="properties")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        broken.extend(_broken_numbers(value, schema))
    return broken


def _broken_numbers(value: float, schema: Schema) -> list[str]:
    broken: list[str] = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        broken.append(f"should be greater than {'' if schema.get('exclusiveMinimum') else 'or equal to '}{low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        broken.append(f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{high}")
    if schema.get("multipleOf") and math.fmod(value, schema["multipleOf"]):
        broken.append(f"should be a multiple of {schema['multipleOf']}")
    width = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if width and not -(2**width) <= value < 2**width:
        broken.append(f"should fit into {schema['format']}")
    return broken


@lru_cache(512)
def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error:
        # Valid in Go but not in Python; the pattern is not enforced.
        return re.compile("")


def _invalid(path: str, value: Any, broken: str) -> Complaint:
    return path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {path} in body {broken}"


def _shown(value: Any) -> str:
    text = encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "…"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@lru_cache(1024)
def walker_of(kind: ServedKind) -> Walker:
    """The walker over objects of this kind, with the metadata that all kinds share."""
    properties = {**(kind.schema.get("properties") or {}), "metadata": OBJECT_META}
    return Walker({**kind.schema, "properties": properties}, DEFINITIONS)
