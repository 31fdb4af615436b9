"""The schemas of all served kinds, as OpenAPI v3 documents per group version and as one v2 document.

Clients use them for `kubectl explain`, to detect that the server validates fields, and to find merge keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.apiserver.documents import encode
from penstock.apiserver.kinds.core_kinds import DEFINITIONS
from penstock.apiserver.kinds.registry import ServedKind
from penstock.kube.kinds import Obj

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def schema_name(kind: ServedKind) -> str:
    """The name of a kind's schema: the reversed group, the version and the kind."""
    if not kind.custom:
        for name, schema in DEFINITIONS.items():
            if schema is kind.schema:
                return name
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def index(kinds: Iterable[ServedKind]) -> Obj:
    """`/openapi/v3`: where the document of each group version is; the hash in the address changes with its content."""
    kinds = tuple(kinds)
    paths: Obj = {}
    for group, version in sorted({(kind.group, kind.version) for kind in kinds}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hashlib.sha256(encode(document(kinds, group, version))).hexdigest()[:32].upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(kinds: Iterable[ServedKind], group: str, version: str) -> Obj | None:
    """The v3 document of one group version; None if there is none."""
    served = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not served:
        return None
    schemas: Obj = {}
    paths: Obj = {}
    for kind in served:
        name = schema_name(kind)
        schemas[name] = _schema(kind)
        paths.update(_paths(kind, name))
    _add_references(schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "penstock", "version": "v1.32.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def document_v2(kinds: Iterable[ServedKind]) -> Obj:
    """Everything in one Swagger 2.0 document."""
    schemas: Obj = {}
    paths: Obj = {}
    for kind in kinds:
        name = schema_name(kind)
        schemas[name] = _schema(kind)
        for path, operations in _paths(kind, name).items():
            paths[path] = {method: _operation_v2(operation) for method, operation in operations.items()}
    _add_references(schemas)
    return {
        "swagger": "2.0",
        "info": {"title": "penstock", "version": "v1.32.0"},
        "paths": _in_v2(paths),
        "definitions": _in_v2(schemas),
    }


def _operation_v2(operation: Obj) -> Obj:
    """An operation whose parameters have no schemas of their own, and whose body is one of them."""
    body = operation.get("requestBody")
    plain = [{**part["schema"], "name": part["name"], "in": part["in"]} for part in operation["parameters"]]
    response = operation["responses"]["200"]
    result: Obj = {key: value for key, value in operation.items() if key.startswith("x-")}
    if body:
        media, content = next(iter(body["content"].items()))
        plain.append({"name": "body", "in": "body", "required": True, "schema": content["schema"]})
        result["consumes"] = list(body["content"]) if media != "application/json" else ["*/*"]
    schema = response["content"]["application/json"]["schema"]
    return {
        **result,
        "produces": ["application/json", "application/yaml"],
        "parameters": plain,
        "responses": {"200": {"description": response["description"], "schema": schema}},
    }


def _schema(kind: ServedKind) -> Obj:
    properties = dict(kind.schema.get("properties") or {})
    properties.setdefault("apiVersion", {"type": "string", "description": "Version of the schema of this object."})
    properties.setdefault("kind", {"type": "string", "description": "Kind of this object."})
    described = {"description": "Standard object's metadata.", **(properties.get("metadata") or {})}
    described.pop("type", None)
    properties["metadata"] = {**described, "allOf": [{"$ref": _V3 + _META}], "default": {}}
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {**kind.schema, "properties": properties, "x-kubernetes-group-version-kind": [identity]}


def _add_references(schemas: Obj) -> None:
    """Adds every definition that is referred to, until nothing new is."""
    waiting = list(schemas.values())
    while waiting:
        for name in _references(waiting.pop()):
            if name not in schemas:
                schemas[name] = DEFINITIONS[name]
                waiting.append(schemas[name])


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, Mapping):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_V3):
            yield reference.removeprefix(_V3)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _in_v2(node: Any) -> Any:
    """The same in Swagger 2.0: other references, which need no wrapping there, and integers or strings as text."""
    if isinstance(node, list):
        return [_in_v2(value) for value in node]
    if not isinstance(node, Mapping):
        return node
    wrapped = node.get("allOf")
    if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0]:
        node = {**{key: value for key, value in node.items() if key not in ("allOf", "type")}, **wrapped[0]}
    if node.get("x-kubernetes-int-or-string") is True:
        node = {"type": "string", "format": "int-or-string", **node}
    return {
        key: value.replace(_V3, _V2) if key == "$ref" and isinstance(value, str) else _in_v2(value)
        for key, value in node.items()
    }


def _paths(kind: ServedKind, name: str) -> Obj:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = root + ("/namespaces/{namespace}" if kind.namespaced else "")
    collection, single = f"{scope}/{kind.plural}", f"{scope}/{kind.plural}/{{name}}"
    paths: Obj = {}
    if "create" in kind.verbs or "list" in kind.verbs:
        paths[collection] = {
            method: _operation(kind, name, method, action)
            for method, action, verb in (("get", "list", "list"), ("post", "post", "create"))
            if verb in kind.verbs
        }
    if "get" in kind.verbs:
        paths[single] = {method: _operation(kind, name, method, method) for method in ("get", "put", "patch", "delete")}
    return paths


def _operation(kind: ServedKind, name: str, method: str, action: str) -> Obj:
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    parameters = [{"name": "pretty", "in": "query", "schema": {"type": "string", "uniqueItems": True}}]
    if method in ("post", "put", "patch"):
        parameters += [
            {"name": parameter, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for parameter in ("dryRun", "fieldManager", "fieldValidation")
        ]
    reference = {"schema": {"$ref": _V3 + name}}
    operation: Obj = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity,
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
    }
    if method == "patch":
        types = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
        if not kind.custom:
            types.append("application/strategic-merge-patch+json")
        operation["requestBody"] = {"content": {one: {"schema": {"type": "object"}} for one in types}, "required": True}
    elif method in ("post", "put"):
        operation["requestBody"] = {"content": {"application/json": reference}, "required": True}
    return operation
