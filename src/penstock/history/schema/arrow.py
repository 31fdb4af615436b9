"""The tables' columns in Arrow's types, for rows that were never written to a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.history.schema.columns import HEADERS, Column, Table

if TYPE_CHECKING:
    from deltalake.schema import DataType as DeltaType

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


@cache
def schema_of(table: Table) -> pa.Schema:
    """The table's columns."""
    return pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])


def delta_type(column: Column) -> DeltaType:
    """The column's type as Delta's log names it, for a column that is added to a table."""
    from deltalake import Schema

    return Schema.from_arrow(pa.schema([(column.name, _TYPES[column.type])])).fields[0].type


def batch_of(table: Table, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows as a batch of Arrow."""
    schema = schema_of(table)
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(_pairs(field, values), field.type) for field, values in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _pairs(field: pa.Field, values: Sequence[Any]) -> Sequence[Any]:
    """Arrow takes maps as lists of pairs."""
    return [list(value.items()) for value in values] if pa.types.is_map(field.type) else list(values)
