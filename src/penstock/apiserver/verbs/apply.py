"""Who set which field: `managedFields` through updates, and server-side apply on top of it.

An update makes its manager the owner of what it changed. An apply owns what it names, takes away what it named before
and nobody else owns, and may not change what another manager owns unless it is forced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.apiserver.documents import Obj, decode, encode, meta
from penstock.apiserver.errors import apply_conflict
from penstock.apiserver.kinds.schema import Schema, Walker
from penstock.apiserver.verbs.fields import Path, from_fields_v1, item_step, leaves, part_of, shown, to_fields_v1

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Manager:
    """Who writes, how, and through which subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True)
class Share:
    """The fields of one manager."""

    manager: Manager
    time: str
    fields: frozenset[Path]

    def without(self, gone: set[Path] | frozenset[Path]) -> Share:
        """The share after others took some of it."""
        kept = self.fields - gone
        return self if kept == self.fields else replace(self, fields=kept)


def shares_of(obj: Mapping[str, Any]) -> list[Share]:
    """The shares noted in the object; entries that cannot be read are left out."""
    found: list[Share] = []
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if not isinstance(entry, Mapping) or not entry.get("operation"):
            continue
        try:
            paths = from_fields_v1(entry.get("fieldsV1") or {})
        except ValueError:
            continue
        manager = Manager(
            str(entry.get("manager", "")),
            str(entry["operation"]),
            str(entry.get("apiVersion", "")),
            str(entry.get("subresource", "")),
        )
        found.append(Share(manager, str(entry.get("time", "")), frozenset(paths)))
    return found


def note(obj: Obj, shares: list[Share]) -> None:
    """Writes the shares into the object, without empty ones."""
    entries = []
    for share in shares:
        if not share.fields:
            continue
        entry: Obj = {
            "manager": share.manager.name,
            "operation": share.manager.operation,
            "apiVersion": share.manager.api_version,
            "time": share.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(share.fields),
        }
        if share.manager.subresource:
            entry["subresource"] = share.manager.subresource
        entries.append(entry)
    if entries:
        meta(obj)["managedFields"] = entries
    else:
        meta(obj).pop("managedFields", None)


def after_update(old: Obj | None, new: Obj, manager: Manager, walker: Walker, now: str) -> None:
    """Notes in `new` who owns what after `manager` turned `old` into it."""
    given = (new.get("metadata") or {}).get("managedFields")
    # A client may edit managedFields themselves; who leaves them out keeps what was noted.
    shares = shares_of(new if given is not None else old or {})
    before, after = leaves(old, walker) if old else {}, leaves(new, walker)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    result: list[Share] = []
    mine: frozenset[Path] = frozenset()
    unchanged = not changed and not removed
    if unchanged:
        note(new, shares)
        return
    for share in shares:
        if share.manager == manager:
            mine = share.fields
        else:
            result.append(share.without(changed | removed))
    own = (mine | changed) - removed
    result.append(Share(manager, now, frozenset(own)))
    note(new, result)


def apply(live: Obj | None, wanted: Obj, manager: Manager, walker: Walker, now: str, *, force: bool) -> Obj:
    """The object after a server-side apply of `wanted`. Raises 409 if others own what it would change."""
    applied = leaves(wanted, walker)
    shares = shares_of(live or {})
    current = leaves(live, walker) if live else {}
    previous: frozenset[Path] = frozenset()
    others: list[Share] = []
    for share in shares:
        if share.manager == manager:
            previous = share.fields
        else:
            others.append(share)
    contested = {path for path, value in applied.items() if path in current and current[path] != value}
    disputed = contested - _taken_over(live, manager, walker)
    conflicts = [(_title(share.manager), shown(path)) for share in others for path in sorted(share.fields & contested)]
    if not force and any(share.fields & disputed for share in others):
        raise apply_conflict(conflicts)
    # A copy, since fields are taken out of the result below, and the live object is compared with it later.
    result = merged(copy.deepcopy(live), wanted, walker.schema, walker) if live else copy.deepcopy(wanted)
    kept = {path for share in others for path in share.fields} | applied.keys()
    # Shortest first, so that an item of a list goes as a whole if nothing in it is anybody else's.
    for path in sorted(previous - kept, key=len):
        if not _names_its_item(path) and not any(other[: len(path)] == path for other in kept):
            _drop(result, path, walker.schema, walker)
    note(result, [*(share.without(contested) for share in others), Share(manager, now, frozenset(applied))])
    return result


def _names_its_item(path: Path) -> bool:
    """Whether the field is what tells a list's item apart: it stays as long as the item does."""
    if len(path) < 2 or not path[-2].startswith("k:"):
        return False
    return path[-1].removeprefix("f:") in decode(path[-2].removeprefix("k:").encode())


def _taken_over(live: Obj | None, manager: Manager, walker: Walker) -> set[Path]:
    """What kubectl may change without force, because it set it itself before with a client-side apply."""
    noted = (meta(live).get("annotations") or {}).get(LAST_APPLIED) if live and manager.name == "kubectl" else None
    if noted is None:
        return set()
    try:
        before = decode(noted.encode())
        return set(leaves(before, walker)) | {("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")}
    except (msgspec.DecodeError, AttributeError, TypeError):
        return set()


def merged(live: Any, wanted: Any, schema: Schema, walker: Walker) -> Any:
    """`wanted` laid over `live`: objects and keyed lists by parts, the rest as a whole."""
    schema = walker.resolve(schema)
    if isinstance(live, Mapping) and isinstance(wanted, Mapping) and schema.get("x-kubernetes-map-type") != "atomic":
        result = dict(live)
        for key, value in wanted.items():
            result[key] = merged(live.get(key), value, part_of(schema, key), walker)
        return result
    kind = schema.get("x-kubernetes-list-type")
    if isinstance(live, list) and isinstance(wanted, list):
        if kind == "set":
            return [*live, *(item for item in wanted if item not in live)]
        if kind == "map":
            return _merged_items(live, wanted, schema, walker)
    return copy.deepcopy(wanted)


def _merged_items(live: list[Any], wanted: list[Any], schema: Schema, walker: Walker) -> list[Any]:
    items = schema.get("items") or {}
    new = {item_step(item, schema, walker): item for item in wanted}
    result = []
    for item in live:
        step = item_step(item, schema, walker)
        result.append(merged(item, new.pop(step), items, walker) if step in new else item)
    return result + [copy.deepcopy(item) for item in new.values()]


def _drop(node: Any, path: Path, schema: Schema, walker: Walker) -> None:
    """Removes a field, and the objects that are empty for it."""
    schema = walker.resolve(schema)
    step, rest = path[0], path[1:]
    kind, _, name = step.partition(":")
    if kind == "f":
        if not isinstance(node, dict) or name not in node:
            return
        if not rest:
            del node[name]
            return
        _drop(node[name], rest, part_of(schema, name), walker)
        if node[name] in ({}, []):
            del node[name]
        return
    if not isinstance(node, list):
        return
    for item in list(node):
        here = item_step(item, schema, walker) if kind == "k" and isinstance(item, Mapping) else None
        if kind == "k" and here == step:
            if rest:
                _drop(item, rest, schema.get("items") or {}, walker)
            else:
                node.remove(item)
        elif kind == "v" and "v:" + encode(item).decode() == step:
            node.remove(item)


def _title(manager: Manager) -> str:
    via = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    using = f" using {manager.api_version}" if manager.operation == "Update" else ""
    return f'"{manager.name}"{via}{using}'
