"""Merge patches (RFC 7396), JSON patches (RFC 6902) and strategic merge patches, as functions from object to object.

None of them changes its arguments. A patch that does not apply raises; the server reports the reason to the client.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import jsonpatch
import jsonpointer

from penstock.apiserver.documents import encode
from penstock.apiserver.errors import ApiError, bad_request, too_large
from penstock.apiserver.kinds.schema import Schema, Walker

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_ITEMS = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_GONE = object()


def merge(target: Any, patch: Any) -> Any:
    """A merge patch: objects are merged, null deletes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json(target: Any, operations: Any) -> Any:
    """A JSON patch: all operations in order, or none."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(f"a JSON patch has at most {MAX_OPERATIONS} operations, not {len(operations)}")
    try:
        result, copied = copy.deepcopy(target), 0
        for operation in operations:
            if operation.get("op") == "copy":
                # Copying a document into itself doubles it each time.
                copied += len(encode(jsonpointer.resolve_pointer(result, operation["from"])))
                if copied > MAX_COPIED_BYTES:
                    raise too_large(MAX_COPIED_BYTES)
            result = jsonpatch.JsonPatch([operation]).apply(result, in_place=True)
        return result
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        # The message of Kubernetes, which gives no details.
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, details={}) from None
    except (TypeError, KeyError, AttributeError, ValueError, IndexError) as error:
        raise bad_request(f"the JSON patch is malformed: {error}") from None


def strategic(target: Mapping[str, Any], patch: Any, walker: Walker) -> dict[str, Any]:
    """A strategic merge patch: like a merge patch, but lists with merge keys are merged item by item."""
    if not isinstance(patch, Mapping):
        raise bad_request("a strategic merge patch is an object")
    return _strategic_object(target, patch, walker.schema, walker)


def _strategic_object(target: Any, patch: Mapping[str, Any], schema: Schema, walker: Walker) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if not key.startswith("$")}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown $patch directive: {directive!r}")
    result = dict(target) if isinstance(target, Mapping) else {}
    schema = walker.resolve(schema)
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        names = {_comparable(name) for name in retained}
        result = {key: value for key, value in result.items() if key in names}
    for key, value in patch.items():
        if key.startswith(_DELETE_ITEMS):
            _delete_items(result, key.removeprefix(_DELETE_ITEMS), value)
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_value(result.get(key), value, _part(schema, key), walker)
    for key, order in patch.items():
        if key.startswith(_ORDER):
            _set_order(result, key.removeprefix(_ORDER), order, schema)
    return result


def _strategic_value(target: Any, value: Any, schema: Schema, walker: Walker) -> Any:
    if isinstance(value, Mapping):
        return _strategic_object(target, value, schema, walker)
    if isinstance(value, list):
        return _strategic_list(target if isinstance(target, list) else [], value, schema, walker)
    return value


def _strategic_list(target: list[Any], patch: list[Any], schema: Schema, walker: Walker) -> list[Any]:
    key = schema.get("x-kubernetes-patch-merge-key")
    if schema.get("x-kubernetes-patch-strategy") != "merge":
        return copy.deepcopy(patch)
    if key is None:
        there = {_comparable(item) for item in target}
        return [*target, *(item for item in patch if _comparable(item) not in there)]
    if any(isinstance(item, Mapping) and item.get(_DIRECTIVE) == "replace" and key not in item for item in patch):
        return [copy.deepcopy(item) for item in patch if _DIRECTIVE not in item]
    result: list[Any] = list(target)
    positions: dict[Any, deque[int]] = {}
    for position, old in enumerate(result):
        if isinstance(old, Mapping):
            positions.setdefault(_comparable(old.get(key)), deque()).append(position)
    for item in patch:
        if not isinstance(item, Mapping) or key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {key}")
        found = positions.setdefault(_comparable(item[key]), deque())
        if item.get(_DIRECTIVE) == "delete":
            if found:
                result[found.popleft()] = _GONE
        elif not found:
            found.append(len(result))
            result.append(_strategic_object({}, item, schema.get("items") or {}, walker))
        else:
            result[found[0]] = _strategic_object(result[found[0]], item, schema.get("items") or {}, walker)
    return [item for item in result if item is not _GONE]


def _delete_items(result: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request(f"{_DELETE_ITEMS}{key} is a list")
    if isinstance(result.get(key), list):
        gone = {_comparable(value) for value in values}
        result[key] = [item for item in result[key] if _comparable(item) not in gone]


def _set_order(result: dict[str, Any], key: str, order: Any, schema: Schema) -> None:
    """Orders the items that the patch names as it does, and puts all others after them."""
    items = result.get(key)
    if not isinstance(items, list) or not isinstance(order, list):
        return
    merge_key = _part(schema, key).get("x-kubernetes-patch-merge-key")

    def identity(item: Any) -> Any:
        return _comparable(item.get(merge_key) if merge_key and isinstance(item, Mapping) else item)

    wanted: dict[Any, int] = {}
    for position, item in enumerate(order):
        wanted.setdefault(identity(item), position)
    named = sorted((item for item in items if identity(item) in wanted), key=lambda item: wanted[identity(item)])
    result[key] = named + [item for item in items if identity(item) not in wanted]


def _comparable(value: Any) -> Any:
    """A hashable form, equal for equal values, so that items of long lists are looked up and not searched."""
    return encode(value) if isinstance(value, dict | list) else value


def _part(schema: Schema, key: str) -> Schema:
    part: Schema = (schema.get("properties") or {}).get(key) or {}
    return part
