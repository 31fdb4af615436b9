"""Kubernetes objects: read from files of YAML or JSON, and printed as tables, YAML or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from penstock.cli.output import lines_of
from penstock.operations.formatting import duration
from penstock.runtime.errors import UserError
from penstock.runtime.times import parse_rfc3339

if TYPE_CHECKING:
    from penstock.operations.cluster_api import Resource


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, of every file of a folder, or of standard input (`-`). Raises UserError."""
    files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
    return [obj for file in files for document in read_documents(file) for obj in _objects(document, file)]


def read_documents(file: Path) -> list[Any]:
    """The YAML documents of a file, or of standard input (`-`). Raises UserError."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return list(yaml.safe_load_all(text))
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.", exit_code=2) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not valid YAML: {' '.join(str(error).split())}.", exit_code=2) from None


def _objects(document: Any, file: Path) -> list[dict[str, Any]]:
    if document is None:
        return []
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise UserError(f"{file} contains a document without apiVersion or kind.", exit_code=2)
    if document["kind"] == "List":
        return [one for item in document.get("items") or [] for one in _objects(item, file)]
    if not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        raise UserError(f"{file}: the {document['kind']} has no metadata.name.", exit_code=2)
    return [document]


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
