"""Objects as rows: the `Table` that `kubectl get` prints, with the columns of the kind."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from penstock.apiserver.documents import encode
from penstock.apiserver.kinds import core_columns, jsonpath, workload_columns
from penstock.apiserver.kinds.columns import NAME, Cell, Cells, human_age
from penstock.apiserver.kinds.registry import PrinterColumn, ServedKind
from penstock.kube.kinds import Obj

_CELLS = {**core_columns.CELLS, **workload_columns.CELLS}


def definitions(kind: ServedKind) -> list[Obj]:
    """The columns as the table declares them."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column, _ in _cells(kind)
    ]


def table(kind: ServedKind, objects: Iterable[Obj], metadata: Obj, *, include: str, columns: bool = True) -> Obj:
    """The table of some objects; each row carries its object as `include` says: None, Metadata or Object."""
    now = datetime.now(UTC)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(kind) if columns else [],
        "rows": [row(kind, obj, include, now) for obj in objects],
    }


def partial(obj: Obj) -> Obj:
    """The object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def row(kind: ServedKind, obj: Obj, include: str, now: datetime) -> Obj:
    """One object's row."""
    made: Obj = {"cells": [cell(obj, now) for _, cell in _cells(kind)]}
    if include == "Object":
        made["object"] = obj
    elif include != "None":
        made["object"] = partial(obj)
    return made


@lru_cache(1024)
def _cells(kind: ServedKind) -> Cells:
    """The columns of a kind; the name is the first one, unless the kind has a column for it."""
    own = _CELLS.get(kind.resource) or tuple((column, _at_path(column)) for column in kind.columns)
    return own if any(column.name == "Name" for column, _ in own) and not kind.custom else (NAME, *own)


def _at_path(column: PrinterColumn) -> Cell:
    return lambda obj, now: _cell(column, jsonpath.first(column.path, obj), now)


def _cell(column: PrinterColumn, value: Any, now: datetime) -> Any:
    if value is None:
        return None
    if column.type == "date":
        return human_age(str(value), now)
    if column.type == "string":
        return value if isinstance(value, str) else encode(value).decode()
    return value
