"""The tables' columns in Arrow's types, for rows that were never written to a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.history.schema.columns import HEADERS, Table

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def schema_of(table: Table) -> pa.Schema:
    """The table's columns."""
    return pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])


def batch_of(table: Table, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows as a batch of Arrow."""
    schema = schema_of(table)
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(_pairs(field, values), field.type) for field, values in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pairs(field: pa.Field, values: Sequence[Any]) -> Sequence[Any]:
    """Arrow takes maps as lists of pairs."""
    return [list(value.items()) for value in values] if pa.types.is_map(field.type) else list(values)
