"""The OpenAPI v2 document in protobuf, the only form that kubectl accepts.

The messages differ from the JSON: maps are lists of names and values, alternatives are wrapped, and values without a
message are YAML text, for which JSON is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.apiserver.documents import encode
from penstock.apiserver.protobuf.messages import message

MEDIA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
RESPONSE_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The same for the Content-Type of the response, which must not contain an `@`."""
_PACKAGE = "openapi.v2"
_EXTENSIONS = "vendor_extension"


def document(swagger: Mapping[str, Any]) -> bytes:
    """The document as the bytes of a message."""
    made = message(f"{_PACKAGE}.Document", "openapi_v2")
    _fill(made, swagger)
    return bytes(made.SerializeToString())


def _fill(target: Any, value: Any) -> None:
    special = _WRAPPED.get(target.DESCRIPTOR.name)
    if special:
        special(target, value)
    else:
        _fill_object(target, value)


def _fill_object(target: Any, value: Mapping[str, Any]) -> None:
    fields = target.DESCRIPTOR.fields_by_name
    for key, part in value.items():
        name = "_ref" if key == "$ref" else re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), key)
        field = fields.get(name)
        if field is not None:
            _put(target, field, part)
        elif key.startswith("x-"):
            _add_named(getattr(target, _EXTENSIONS), key, part)


def _fill_map(field: str) -> Callable[[Any, Mapping[str, Any]], None]:
    """All keys of an object as names."""

    def fill(target: Any, value: Mapping[str, Any]) -> None:
        for key, part in value.items():
            _add_named(getattr(target, field), key, part)

    return fill


def _put(target: Any, field: Any, value: Any) -> None:
    if field.is_repeated:
        into = getattr(target, field.name)
        for item in value:
            if field.message_type is None:
                into.append(item)
            else:
                _fill(into.add(), item)
    elif field.message_type is not None:
        into = getattr(target, field.name)
        into.SetInParent()
        _fill(into, value)
    else:
        setattr(target, field.name, value)


def _add_named(into: Any, name: str, value: Any) -> None:
    entry = into.add()
    entry.name = name
    entry.value.SetInParent()
    _fill(entry.value, value)


def _fill_any(target: Any, value: Any) -> None:
    target.yaml = encode(value).decode()


def _fill_type(target: Any, value: Any) -> None:
    target.value.extend([value] if isinstance(value, str) else value)


def _fill_items(target: Any, value: Any) -> None:
    for schema in value if isinstance(value, list) else [value]:
        _fill(target.schema.add(), schema)


def _fill_additional(target: Any, value: Any) -> None:
    if isinstance(value, bool):
        target.boolean = value
    else:
        _fill(target.schema, value)


def _fill_parameter(target: Any, value: Mapping[str, Any]) -> None:
    if value["in"] == "body":
        _fill_object(target.parameter.body_parameter, value)
    else:
        _fill_object(getattr(target.parameter.non_body_parameter, f"{value['in']}_parameter_sub_schema"), value)


def _fill_choice(field: str) -> Callable[[Any, Any], None]:
    """The one alternative that is in use."""

    def fill(target: Any, value: Any) -> None:
        into = getattr(target, field)
        into.SetInParent()
        _fill(into, value)

    return fill


_WRAPPED: dict[str, Callable[[Any, Any], None]] = {
    "Any": _fill_any,
    "TypeItem": _fill_type,
    "ItemsItem": _fill_items,
    "AdditionalPropertiesItem": _fill_additional,
    "ParametersItem": _fill_parameter,
    "SchemaItem": _fill_choice("schema"),
    "ResponseValue": _fill_choice("response"),
    "Definitions": _fill_map("additional_properties"),
    "Properties": _fill_map("additional_properties"),
    "Paths": _fill_map("path"),
    "Responses": _fill_map("response_code"),
}
