"""The fields of an object, as field ownership names them.

A field is a path of steps as `managedFields` writes them: `f:<name>` into an object, `k:{…}` into the item of a list
that is a map, `v:<value>` for an item of a set. Lists without such a type, and scalars, are leaves. A set of paths
translates to and from the nested `fieldsV1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.apiserver.documents import decode, encode
from penstock.apiserver.errors import ApiError
from penstock.apiserver.kinds.schema import Schema, Walker

Path = tuple[str, ...]

MAX_STEPS = 400_000
"""Limit for the paths of all fields of an object, or of all that its managers own. The only writer handles them in each
write: a crafted object of three megabytes could have hundreds of millions; large real ones have some ten thousands.
"""

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


class StepCount:
    """Counts the steps of paths while they are built, so that too many never fill the memory."""

    def __init__(self) -> None:
        self._steps = 0

    def add(self, path: Path) -> None:
        """Counts a path; raises 413 if there are too many steps in total."""
        self._steps += len(path)
        if self._steps > MAX_STEPS:
            why = f"the paths to the fields of the object have more than {MAX_STEPS} steps together"
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def leaves(obj: Mapping[str, Any], walker: Walker) -> dict[Path, Any]:
    """Every owned field of the object with its value; items of map lists are present with value None. Raises 413."""
    found: dict[Path, Any] = {}
    steps = StepCount()
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        owned = value
        if key == "metadata":
            owned = {name: part for name, part in value.items() if name not in _UNOWNED}
            if not owned:
                continue
        for path, leaf in _leaves(owned, part_of(walker.resolve(walker.schema), key), walker, (f"f:{key}",)):
            steps.add(path)
            found[path] = leaf
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
    """The step that names an item of a map list; missing keys have their default."""
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
    root: dict[str, Any] = {}
    # Sorted, so that a field precedes those below it.
    for path in sorted(paths):
        node, end = root, len(path) - 1
        for index, step in enumerate(path):
            if step not in node:
                node[step] = {}
            elif not node[step] and index < end:
                node[step]["."] = {}
            node = node[step]
    return root


def from_fields_v1(nested: Any, steps: StepCount | None = None) -> set[Path]:
    """The paths of the nested form. Raises ValueError if it has another shape, and 413."""
    paths: set[Path] = set()
    steps = steps or StepCount()

    def add(path: Path) -> None:
        steps.add(path)
        paths.add(path)

    def walk(node: Any, path: Path) -> None:
        if not isinstance(node, Mapping):
            raise ValueError("fieldsV1 is not an object of objects")
        if not node and path:
            add(path)
        for step, below in node.items():
            if step == ".":
                add(path)
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
