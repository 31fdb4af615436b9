"""Objects as tables, YAML and JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from penstock.cli.output import lines_of
from penstock.operations.cluster_api import Resource
from penstock.operations.formatting import duration
from penstock.timestamps import parse_rfc3339


def table_lines(table: dict[str, Any], *, wide: bool, everywhere: bool, now: datetime | None = None) -> list[str]:
    """A table of the server, line by line; nothing where it has no rows."""
    rows = table.get("rows") or []
    if not rows:
        return []
    columns = [
        (number, column)
        for number, column in enumerate(table["columnDefinitions"])
        if wide or not column.get("priority")
    ]
    headings = [column["name"].upper() for _, column in columns]
    cells = [[_cell(row["cells"][number], column, now) for number, column in columns] for row in rows]
    if everywhere:
        headings = ["NAMESPACE", *headings]
        spaces = [(row.get("object") or {}).get("metadata", {}).get("namespace", "") for row in rows]
        cells = [[space, *line] for space, line in zip(spaces, cells, strict=True)]
    return lines_of(headings, cells)


def kinds_lines(resources: Sequence[Resource]) -> list[str]:
    """The kinds that a server has."""
    rows = [(one.plural, one.api_version, ",".join(one.short_names[1:])) for one in resources]
    return lines_of(("KIND", "API VERSION", "ALSO"), sorted(rows))


def document(found: Any, *, as_yaml: bool) -> str:
    """An object, or several as a List."""
    whole = {"apiVersion": "v1", "kind": "List", "items": found} if isinstance(found, list) else found
    return yaml.safe_dump(whole, sort_keys=False).rstrip() if as_yaml else json.dumps(whole, indent=2)


def _cell(value: Any, column: dict[str, Any], now: datetime | None) -> str:
    if value is None:
        return ""
    if column.get("type") == "date" and isinstance(value, str):
        try:
            return duration(max(0.0, ((now or datetime.now(UTC)) - parse_rfc3339(value)).total_seconds()))
        except ValueError:
            return value
    return str(value)
