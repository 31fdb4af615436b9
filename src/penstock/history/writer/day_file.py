"""One Parquet file of a table and a day, written step by step, and what Delta's log says about it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.schema.arrow import batch_of, schema_of
from penstock.history.schema.columns import DAY, Table
from penstock.history.schema.rows import Row

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

GROUP_BYTES = 32 * 2**20
"""What is gathered in memory before it is written as a row group."""
RANGED_TYPES = frozenset({"int", "bigint", "timestamp"})
"""Types of columns whose smallest and largest value are noted: readers pass over files by them."""
REPEATED = frozenset(
    {"target", "source", "type", "specversion", "datacontenttype", "subject", "dataschema"}
    | {"route", "kind", "namespace", "name", "stage", "destination", "result", "reason"}
)
"""Columns whose values come again: a dictionary of others costs time and room."""


class DayFile:
    """A file that is written, unseen until a commit names it."""

    def __init__(self, root: Path, table: Table, day: date) -> None:
        self._table, self._day = table, day
        self._path = f"{DAY}={day}/part-{uuid4()}.zstd.parquet"
        self._full = root / self._path
        self._full.parent.mkdir(exist_ok=True)
        self._schema = _without_day(schema_of(table))
        self._file = self._full.open("xb")
        repeated = [name for name in table.names if name in REPEATED]
        self._writer = pq.ParquetWriter(
            self._file, self._schema, compression="zstd", compression_level=1, use_dictionary=repeated
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Appends rows of its day."""
        batch = batch_of(self._table, rows)
        self._waiting.append(batch.select(self._schema.names))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Has everything on the disk."""
        self._write_group()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def action(self) -> AddAction:
        """What a commit says about it."""
        from deltalake.transaction import AddAction

        told = json.dumps(statistics(pq.read_metadata(self._full), self._table))
        size = self._full.stat().st_size
        return AddAction(self._path, size, {DAY: str(self._day)}, int(time.time() * 1000), True, told)

    def discard(self) -> None:
        """Removes it, in whatever state it is."""
        for step in (self._writer.close, self._file.close, self._full.unlink):
            with contextlib.suppress(OSError, ValueError, pa.ArrowException):
                step()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=2**31 - 1)
        self._waiting, self._waiting_bytes = [], 0


def statistics(metadata: pq.FileMetaData, table: Table) -> dict[str, Any]:
    """How many rows a file has and between which values they lie, as Delta writes it."""
    ranged = {column.name for column in table.columns if column.type in RANGED_TYPES}
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    for place, name in enumerate(metadata.schema.names):
        found = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
        if name in ranged and found and all(one is not None and one.has_min_max for one in found):
            smallest[name] = _told(min(one.min for one in found), up=False)
            largest[name] = _told(max(one.max for one in found), up=True)
    return {"numRecords": metadata.num_rows, "minValues": smallest, "maxValues": largest}


def _told(value: Any, up: bool) -> Any:
    """Moments have milliseconds there, rounded so that all values lie between them."""
    if not isinstance(value, datetime):
        return value
    beyond = value.microsecond % 1000
    moment = value + timedelta(microseconds=(1000 - beyond) % 1000 if up else -beyond)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _without_day(schema: pa.Schema) -> pa.Schema:
    return schema.remove(schema.get_field_index(DAY))
