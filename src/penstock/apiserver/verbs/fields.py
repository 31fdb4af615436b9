"""Which fields an object has, for telling who owns them.

A field is a path of steps as `managedFields` writes them: `f:<name>` into an object, `k:{…}` into the item of a list
that is a map, `v:<value>` for an item of a set. Lists without such a type, and scalars, are leaves. A set of paths
translates to and from the nested `fieldsV1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.apiserver.documents import decode, encode
from penstock.apiserver.kinds.schema import Schema, Walker

Path = tuple[str, ...]

_UNOWNED = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
}


def leaves(obj: Mapping[str, Any], walker: Walker) -> dict[Path, Any]:
    """Every owned field of the object with its value; items of map lists are present with value None."""
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        owned = value
        if key == "metadata":
            owned = {name: part for name, part in value.items() if name not in _UNOWNED}
            if not owned:
                continue
        found.update(_leaves(owned, part_of(walker.resolve(walker.schema), key), walker, (f"f:{key}",)))
    return found


def _leaves(value: Any, schema: Schema, walker: Walker, path: Path) -> Iterator[tuple[Path, Any]]:
    schema = walker.resolve(schema)
    if isinstance(value, Mapping) and value and schema.get("x-kubernetes-map-type") != "atomic":
        for key, item in value.items():
            yield from _leaves(item, part_of(schema, key), walker, (*path, f"f:{key}"))
        return
    if isinstance(value, list) and value:
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            for item in value:
                yield (*path, "v:" + encode(item).decode()), None
            return
        if kind == "map" and all(isinstance(item, Mapping) for item in value):
            for item in value:
                here = (*path, item_step(item, schema, walker))
                yield here, None
                yield from _leaves(item, schema.get("items") or {}, walker, here)
            return
    yield path, value


def item_step(item: Mapping[str, Any], schema: Schema, walker: Walker) -> str:
    """The step that names an item of a map list; keys left out have their default."""
    properties = walker.resolve(schema.get("items") or {}).get("properties") or {}
    keys: dict[str, Any] = {}
    for key in sorted(schema.get("x-kubernetes-list-map-keys") or ()):
        value = item.get(key, (properties.get(key) or {}).get("default"))
        if value is not None:
            keys[key] = value
    return "k:" + encode(keys).decode()


def part_of(schema: Schema, key: str) -> Schema:
    """The schema of one property; empty if the schema does not say."""
    properties = schema.get("properties") or {}
    if key in properties:
        part: Schema = properties[key]
        return part
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, Mapping) else {}


def to_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """The nested form; a step that is a field itself and has fields below is marked with `.`."""
    ordered = sorted(paths)
    known = set(ordered)
    root: dict[str, Any] = {}
    for path in ordered:
        node = root
        for depth, step in enumerate(path, 1):
            if step not in node:
                node[step] = {}
            node = node[step]
            if depth < len(path) and path[:depth] in known:
                node["."] = {}
    return root


def from_fields_v1(nested: Any) -> set[Path]:
    """The paths of the nested form. Raises ValueError if it has another shape."""
    paths: set[Path] = set()

    def walk(node: Any, path: Path) -> None:
        if not isinstance(node, Mapping):
            raise ValueError("fieldsV1 is not an object of objects")
        if not node and path:
            paths.add(path)
        for step, below in node.items():
            if step == ".":
                paths.add(path)
            else:
                walk(below, (*path, step))

    walk(nested, ())
    return paths


def shown(path: Path) -> str:
    """A path as conflicts name it: `.spec.ports[port=80].name`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            pairs = ",".join(f"{key}={encode(value).decode()}" for key, value in decode(rest.encode()).items())
            text += f"[{pairs}]"
        else:
            text += f"[={rest}]"
    return text
