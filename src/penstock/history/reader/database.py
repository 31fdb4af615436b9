"""DuckDB over the files of the tables and newer records of Kafka; it can access nothing else.

Statements of users may only read. DuckDB itself parses them, and every node must be a query: a `WITH` can contain an
INSERT, a DELETE or a COPY to a file, so the kind of the whole statement is not enough.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.history.reader.tables import HOW_TO_INSTALL, TableFiles
from penstock.history.schema.columns import HistoryProblem, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})


def check_reads_only(connection: DuckDBPyConnection, statement: str) -> None:
    """Raises HistoryProblem unless the statement is a single read-only query."""
    found = connection.execute("select json_serialize_sql(?)", [statement]).fetchall()
    parsed: dict[str, Any] = json.loads(found[0][0])
    if parsed["error"]:
        if parsed.get("error_type") == "not implemented":
            raise _refused()
        raise HistoryProblem(f"Invalid query: {parsed.get('error_message', 'it cannot be parsed')}")
    if len(parsed["statements"]) != 1 or not all(node in QUERIES for node in _nodes(parsed)):
        raise _refused()


def _refused() -> HistoryProblem:
    return HistoryProblem("Only a single SELECT, FROM, DESCRIBE or SUMMARIZE statement is allowed.")


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


MEMORY_MIB = 2048
GUEST_MEMORY_MIB = 512
"""Where it shares a process with deliveries."""
WORKING_MEMORY_MIB = 512
"""Where it has a folder for what does not fit."""
ROWS_AT_ONCE = 20_000

_SQL_TYPES = {
    "int": "INTEGER",
    "string": "VARCHAR",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
    "array<struct<key:string,value:binary>>": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
}


class Database:
    """The views `events` and `attempts`, of one moment."""

    def __init__(self, *, guest: bool = False, folder: Path | None = None) -> None:
        """`guest`: in a process whose own work must not wait for it. `folder`: where it puts what does not fit into
        memory, also of tables of its own."""
        try:
            import duckdb
        except ImportError:
            raise HistoryProblem("The history cannot be read: packages are missing.", HOW_TO_INSTALL) from None
        self._connection: DuckDBPyConnection = duckdb.connect(":memory:")
        if folder is not None:
            self._connection.execute("set temp_directory=?", [str(folder)])
        memory = GUEST_MEMORY_MIB if guest else MEMORY_MIB if folder is None else WORKING_MEMORY_MIB
        self._connection.execute(f"set memory_limit='{memory}MiB'; set TimeZone='UTC'")
        # How far a statement is, a command shows in its own way.
        self._connection.execute("set enable_progress_bar=true; set enable_progress_bar_print=false")
        if guest:
            self._connection.execute("set threads=1")
        self._paths: list[str] = []

    def close(self) -> None:
        """Closes it."""
        self._connection.close()

    def add(self, table: Table, files: TableFiles | None, rest: pa.Table) -> None:
        """Makes the view of a table."""
        self._connection.register(f"rest_of_{table.name}", rest)
        parts = [self._files(table, files)] if files is not None and files.files else []
        parts.append(f"select {_columns(table)} from rest_of_{table.name}")
        text = ", try(decode(data)) as text" if "data" in table.names else ""
        union = " union all ".join(parts)
        with _as_history_problem():
            self._connection.execute(f"create view {table.name} as select *{text} from ({union})")

    def lock(self) -> None:
        """From here on nothing but the files of the tables can be read, and no setting changed."""
        self._connection.execute(f"set allowed_paths={_list(self._paths)}")
        self._connection.execute("set python_enable_replacements=false")
        self._connection.execute("set enable_external_access=false")
        self._connection.execute("set lock_configuration=true")

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of an internal query."""
        with _as_history_problem():
            rows: list[dict[str, Any]] = self._answer(statement, parameters).to_pylist()
            return rows

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The result of a statement of the user. Raises HistoryProblem unless it only reads."""
        with _as_history_problem():
            check_reads_only(self._connection, statement)
            return self._answer(statement, parameters)

    def do(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Runs an internal statement without a result."""
        with _as_history_problem():
            self._connection.execute(statement, list(parameters))

    def batches(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of an internal query, some thousands at a time. Tables may grow in the meantime."""
        with _as_history_problem():
            yield from self._connection.sql(statement, params=list(parameters)).to_arrow_reader(ROWS_AT_ONCE)

    def insert(self, table: str, columns: Sequence[str], rows: Collection[tuple[object, ...]]) -> None:
        """Puts rows into a table of its own."""
        import pyarrow as pa

        if not rows:
            return
        arrays = [pa.array(values) for values in zip(*rows, strict=True)]
        with (
            _as_history_problem(),
            self._connection.cursor() as writing,
        ):  # a result may still be read from the connection
            writing.register("rows_to_insert", pa.table(arrays, names=list(columns)))
            writing.execute(f"insert into {table} select * from rows_to_insert")

    def _answer(self, statement: str, parameters: Sequence[Any]) -> pa.Table:
        return self._connection.sql(statement, params=list(parameters)).to_arrow_table()

    def progress(self) -> float:
        """How much of the running statement is done, in percent; below zero where unknown. From any thread."""
        return float(self._connection.query_progress())

    def interrupt(self) -> None:
        """Ends the running statement. From any thread."""
        self._connection.interrupt()

    def _files(self, table: Table, files: TableFiles) -> str:
        if files.remote is not None:
            self._connection.register(f"files_of_{table.name}", files.remote.to_pyarrow_dataset())
            return f"select {_columns(table)} from files_of_{table.name}"
        self._paths += files.files
        read = f"read_parquet({_list(files.files)}, hive_partitioning=true, union_by_name=true)"
        return f"select {_columns(table)} from {read}"


def _columns(table: Table) -> str:
    return ", ".join(
        f'cast("{column.name}" as {_SQL_TYPES.get(column.type, column.type)}) as "{column.name}"'
        for column in table.columns
    )


def _list(values: Sequence[str]) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"[{quoted}]"


@contextmanager
def _as_history_problem() -> Iterator[None]:
    """Turns errors of DuckDB into HistoryProblems."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        text = str(error).strip()
        raise HistoryProblem(f"The query failed: {text}") from error


def as_dict(pairs: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> dict[str, str]:
    """A map of DuckDB's."""
    return dict(pairs or {})
