"""Objects as rows: the `Table` that `kubectl get` prints, with the columns of the kind."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from penstock.apiserver.documents import Obj, encode
from penstock.apiserver.kinds import jsonpath
from penstock.apiserver.kinds.ages import human_age
from penstock.apiserver.kinds.core_columns import CELLS
from penstock.apiserver.kinds.registry import Column, ServedKind

_NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace.",
    "priority": 0,
}


def definitions(kind: ServedKind) -> list[Obj]:
    """The columns as the table declares them."""
    return [_NAME] + [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in _columns(kind)
    ]


def table(kind: ServedKind, objects: Iterable[Obj], metadata: Obj, *, include: str, columns: bool = True) -> Obj:
    """The table of some objects; each row carries its object as `include` says: None, Metadata or Object."""
    now = datetime.now(UTC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(kind) if columns else [],
        "rows": [_row(kind, obj, include, now) for obj in objects],
    }


def partial(obj: Obj) -> Obj:
    """The object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _row(kind: ServedKind, obj: Obj, include: str, now: datetime) -> Obj:
    special = CELLS.get(kind.resource)
    cells = [obj["metadata"]["name"]]
    if special:
        cells += [cell(obj, now) for _, cell in special]
    else:
        cells += [_cell(column, jsonpath.first(column.path, obj), now) for column in kind.columns]
    row: Obj = {"cells": cells}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial(obj)
    return row


def _columns(kind: ServedKind) -> tuple[Column, ...]:
    special = CELLS.get(kind.resource)
    return tuple(column for column, _ in special) if special else kind.columns


def _cell(column: Column, value: Any, now: datetime) -> Any:
    if value is None:
        # As on a real cluster: a missing date is unknown, anything else missing is an empty cell.
        return "<unknown>" if column.type == "date" else None
    if column.type == "date":
        return human_age(str(value), now)
    if column.type == "string":
        return value if isinstance(value, str) else encode(value).decode()
    return value
