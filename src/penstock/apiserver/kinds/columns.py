"""Building blocks for the columns of built-in kinds: a column and a function from an object to its cell, and ages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from penstock.apiserver.kinds import jsonpath
from penstock.apiserver.kinds.registry import PrinterColumn
from penstock.kube.kinds import Obj
from penstock.runtime.times import parse_rfc3339

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def human_age(moment: str, now: datetime) -> str:
    """The time since a timestamp in kubectl's short form: 45s, 3m20s, 5h, 12d."""
    try:
        then = parse_rfc3339(moment)
    except ValueError:
        return "<invalid>"
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """A number of seconds in the same form: exact if it is short, rounded if it is long."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(0, seconds)
    # (below this, unit, its letter, smaller unit, its letter); the smaller unit is shown only while it matters
    steps = (
        (2 * MINUTE, 1, "s", 0, ""),
        (10 * MINUTE, MINUTE, "m", 1, "s"),
        (3 * HOUR, MINUTE, "m", 0, ""),
        (8 * HOUR, HOUR, "h", MINUTE, "m"),
        (2 * DAY, HOUR, "h", 0, ""),
        (8 * DAY, DAY, "d", HOUR, "h"),
        (2 * YEAR, DAY, "d", 0, ""),
        (8 * YEAR, YEAR, "y", DAY, "d"),
    )
    for limit, unit, letter, smaller, small_letter in steps:
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            extra = rest // smaller if smaller else 0
            return f"{whole}{letter}" + (f"{extra}{small_letter}" if extra else "")
    return f"{seconds // YEAR}y"


Cell = Callable[[Obj, datetime], Any]
Cells = tuple[tuple[PrinterColumn, Cell], ...]
NONE = "<none>"
SHOWN_ITEMS = 3
"""How many items of a list are shown before the rest is only counted."""


def column(name: str, type_: str = "string", priority: int = 0, format_: str = "") -> PrinterColumn:
    """A column whose cells are made by a function."""
    return PrinterColumn(name, "", type_, priority, format=format_)


def at(path: str, missing: Any = NONE) -> Cell:
    """The value at a JSONPath."""

    def cell(obj: Obj, _now: datetime) -> Any:
        value = jsonpath.first(path, obj)
        return missing if value in (None, "") else value

    return cell


def age(path: str = ".metadata.creationTimestamp", missing: str = "<unknown>") -> Cell:
    """How long ago the moment at a JSONPath was."""

    def cell(obj: Obj, now: datetime) -> str:
        value = jsonpath.first(path, obj)
        return human_age(str(value), now) if value else missing

    return cell


def count(*paths: str) -> Cell:
    """How many items the lists and maps at some JSONPaths have together."""
    return lambda obj, _now: sum(len(jsonpath.first(path, obj) or ()) for path in paths)


def joined(items: Iterable[str], empty: str = NONE) -> str:
    """The first items of a list, and how many more there are."""
    items = list(items)
    shown = ",".join(items[:SHOWN_ITEMS])
    more = len(items) - SHOWN_ITEMS
    return (f"{shown} + {more} more..." if more > 0 else shown) or empty


def selector_text(selector: Obj | None) -> str:
    """A label selector as kubectl writes it: `app=web,tier in (a,b),!old`."""
    selector = selector or {}
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, operator, values = term.get("key", ""), term.get("operator"), ",".join(sorted(term.get("values") or ()))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append(shown.get(str(operator), key))
    return ",".join(terms)


_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
NAME = (PrinterColumn("Name", "", format="name", description=_NAME_DESCRIPTION), at(".metadata.name"))
AGE = (column("Age"), age())
CREATED = (column("Created At", "date"), at(".metadata.creationTimestamp"))
