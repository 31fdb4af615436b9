"""Whether a statement only reads. DuckDB itself parses it; what it finds must consist of queries alone.

A `WITH` may hold an INSERT, a DELETE or a COPY to a file, so that the kind of the whole statement says too little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.history.schema.problem import HistoryProblem

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})


def check_reads_only(connection: DuckDBPyConnection, statement: str) -> None:
    """Raises HistoryProblem for what is not one query that only reads."""
    found = connection.execute("select json_serialize_sql(?)", [statement]).fetchall()
    parsed: dict[str, Any] = json.loads(found[0][0])
    if parsed["error"]:
        if parsed.get("error_type") == "not implemented":
            raise _refused()
        raise HistoryProblem(f"The statement is wrong: {parsed.get('error_message', 'it cannot be parsed')}")
    if len(parsed["statements"]) != 1 or not all(node in QUERIES for node in _nodes(parsed)):
        raise _refused()


def _refused() -> HistoryProblem:
    return HistoryProblem("Only one statement is taken, and one that reads: SELECT, FROM, DESCRIBE, SUMMARIZE.")


def _nodes(parsed: object) -> Iterator[str]:
    """The kinds of all query nodes in it."""
    if isinstance(parsed, dict):
        kind = parsed.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE"):
            yield kind
        if "info_type" in parsed:  # what a statement that does something is described by
            yield str(parsed["info_type"])
        for part in parsed.values():
            yield from _nodes(part)
    elif isinstance(parsed, list):
        for part in parsed:
            yield from _nodes(part)
