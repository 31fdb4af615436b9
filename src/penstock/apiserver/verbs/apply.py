"""Field ownership: `managedFields` after updates, and server-side apply.

An update makes its manager the owner of what it changed. An apply owns what it names, removes what it named before and
no other manager owns, and may not change what another manager owns unless it is forced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.apiserver.documents import decode, encode, meta
from penstock.apiserver.errors import apply_conflict
from penstock.apiserver.kinds.schema import Schema, Walker
from penstock.apiserver.verbs.fields import (
    Path,
    StepCount,
    from_fields_v1,
    item_step,
    leaves,
    part_of,
    shown,
    to_fields_v1,
)
from penstock.kube.kinds import Obj

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
        """The share without fields that others own now."""
        kept = self.fields - gone
        return self if kept == self.fields else replace(self, fields=kept)


def shares_of(obj: Mapping[str, Any]) -> list[Share]:
    """The shares in the object's managedFields; entries that cannot be read are left out."""
    found: list[Share] = []
    steps = StepCount()
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if not isinstance(entry, Mapping) or not entry.get("operation"):
            continue
        try:
            paths = from_fields_v1(entry.get("fieldsV1") or {}, steps)
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


def write_shares(obj: Obj, shares: list[Share]) -> None:
    """Writes the shares to the object's managedFields, without empty ones."""
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
    """Updates the managedFields of `new`, which `manager` made of `old`."""
    given = (new.get("metadata") or {}).get("managedFields")
    # A client may edit managedFields itself; if it leaves them out, the stored ones stay.
    shares = shares_of(new if given is not None else old or {})
    before, after = leaves(old, walker) if old else {}, leaves(new, walker)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    result: list[Share] = []
    mine: frozenset[Path] = frozenset()
    unchanged = not changed and not removed
    if unchanged:
        write_shares(new, shares)
        return
    for share in shares:
        if share.manager == manager:
            mine = share.fields
        else:
            result.append(share.without(changed | removed))
    own = (mine | changed) - removed
    result.append(Share(manager, now, frozenset(own)))
    write_shares(new, result)


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
    if not force and any(share.fields & disputed for share in others):
        conflicting = ((share, path) for share in others for path in sorted(share.fields & contested))
        raise apply_conflict([(_title(share.manager), shown(path)) for share, path in conflicting])
    # A copy, since fields are taken out of the result below, and the live object is compared with it later.
    result = merged(copy.deepcopy(live), wanted, walker.schema, walker) if live else copy.deepcopy(wanted)
    kept = {path for share in others for path in share.fields} | applied.keys()
    kept_tree = to_fields_v1(kept)
    # An item of a list is removed as a whole if no other manager owns anything in it.
    dropped = (path for path in previous - kept if not _names_its_item(path) and not _leads_into(path, kept_tree))
    _drop(result, to_fields_v1(dropped), walker.schema, walker)
    write_shares(result, [*(share.without(contested) for share in others), Share(manager, now, frozenset(applied))])
    return result


def _leads_into(path: Path, tree: Mapping[str, Any]) -> bool:
    """Whether the field, or one below it, is in the nested form of some fields."""
    node = tree
    for step in path:
        if step not in node:
            return False
        node = node[step]
    return True


def _names_its_item(path: Path) -> bool:
    """Whether the field is a key of a list's item: it stays as long as the item does."""
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
            there = {encode(item) for item in live}
            return [*live, *(item for item in wanted if encode(item) not in there)]
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


def _drop(node: Any, tree: Mapping[str, Any], schema: Schema, walker: Walker) -> None:
    """Removes the fields that a nested form names, and the objects that are empty then."""
    schema = walker.resolve(schema)
    if isinstance(node, dict):
        for step, below in tree.items():
            kind, _, name = step.partition(":")
            if kind != "f" or name not in node:
                continue
            if not _is_named(below):
                _drop(node[name], below, part_of(schema, name), walker)
            if _is_named(below) or node[name] in ({}, []):
                del node[name]
    elif isinstance(node, list):
        node[:] = [item for item in node if not _drop_item(item, tree, schema, walker)]


def _drop_item(item: Any, tree: Mapping[str, Any], schema: Schema, walker: Walker) -> bool:
    """Whether the item of a list is removed as a whole; otherwise removes what is named in it."""
    if "v:" + encode(item).decode() in tree:
        return True
    below = tree.get(item_step(item, schema, walker)) if isinstance(item, Mapping) else None
    if below is None:
        return False
    if not _is_named(below):
        _drop(item, below, schema.get("items") or {}, walker)
    return _is_named(below)


def _is_named(below: Mapping[str, Any]) -> bool:
    """Whether a nested form names the field itself, and not only some below it."""
    return not below or "." in below


def _title(manager: Manager) -> str:
    via = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    using = f" using {manager.api_version}" if manager.operation == "Update" else ""
    return f'"{manager.name}"{via}{using}'
