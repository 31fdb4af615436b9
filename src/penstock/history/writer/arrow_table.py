"""The tables as this process writes them itself, for a folder of this machine: without a JVM, in a tenth of its time.

Records are read in large steps, made into columns by the same rows that questions make of them, and appended to one
Parquet file for each day. The files are on the disk before the commit that names them; those of a writer that was
killed belong to no version of the table, and `vacuum` removes them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.history.reader.snapshot import ROW_OF, RecordReader
from penstock.history.reader.tables import FileSize, check, file_sizes, location, open_table
from penstock.history.schema.arrow import batch_of, schema_of
from penstock.history.schema.columns import DAY, VERSION, VERSION_ID, HistoryProblem, Table
from penstock.history.schema.rows import Row
from penstock.history.writer.plan import WriterPace
from penstock.history.writer.stored_table import PROPERTIES, Conflict, Range
from penstock.kafka.ranges import LogRecord, RangeReader
from penstock.settings import Settings

if TYPE_CHECKING:
    from deltalake import DeltaTable
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

        stats = json.dumps(statistics(pq.read_metadata(self._full), self._table))
        size = self._full.stat().st_size
        return AddAction(self._path, size, {DAY: str(self._day)}, int(time.time() * 1000), True, stats)

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
            smallest[name] = _bound(min(one.min for one in found), up=False)
            largest[name] = _bound(max(one.max for one in found), up=True)
    return {"numRecords": metadata.num_rows, "minValues": smallest, "maxValues": largest}


def _bound(value: Any, up: bool) -> Any:
    """Moments have milliseconds there, rounded so that all values lie between them."""
    if not isinstance(value, datetime):
        return value
    beyond = value.microsecond % 1000
    moment = value + timedelta(microseconds=(1000 - beyond) % 1000 if up else -beyond)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _without_day(schema: pa.Schema) -> pa.Schema:
    return schema.remove(schema.get_field_index(DAY))


COMPACTED_BYTES = 64 * 2**20
"""How large files become when small ones are put together; larger ones would be written again each time."""
GROUP_ROWS = 100_000
STEP_RECORDS = 250
"""Between two rests: some ten milliseconds."""
MIB = 2**20
SPARE_MIB = 512
"""What has to be free beyond what the ingress needs: more than one commit takes."""

Connect = Callable[[Settings], RecordReader]


def _connect(settings: Settings) -> RecordReader:
    return RangeReader(settings, passing_over_gone=False)


class ArrowTable:
    """One table in a folder. `connect` opens what reads the topic, and has to refuse offsets that are gone."""

    def __init__(
        self, settings: Settings, table: Table, connect: Connect = _connect, pace: WriterPace | None = None
    ) -> None:
        self._settings, self._table, self._connect, self._pace = settings, table, connect, pace or WriterPace()
        self._place = location(settings.history_root, table)

    def ensure(self) -> bool:
        """See StoredTable."""
        from deltalake import CommitProperties, DeltaTable, Field, Transaction

        from penstock.history.schema.arrow import delta_type, schema_of

        found = open_table(self._place)
        if found is None:
            Path(self._place).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self._place,
                schema_of(self._table),
                mode="ignore",
                partition_by=[DAY],
                configuration=PROPERTIES,
                commit_properties=CommitProperties(app_transactions=[Transaction(VERSION_ID, VERSION)]),
            )
            return True
        check(found, self._place, self._table)
        present = {field.name for field in found.schema().fields}
        missing = [column for column in self._table.columns if column.name not in present]
        if missing:
            found.alter.add_columns([Field(column.name, delta_type(column)) for column in missing])
        return False

    def begin(self, ids: Iterable[str]) -> ArrowCommit:
        """See StoredTable."""
        self._check_room()
        connect = partial(self._connect, self._settings)
        return ArrowCommit(self._opened(), Path(self._place), self._table, ids, connect, pace=self._pace)

    def _check_room(self) -> None:
        """The history never takes the last room of a disk: below a limit the ingress takes no events."""
        free, wanted = shutil.disk_usage(self._place).free // MIB, self._settings.min_free_disk_mib + SPARE_MIB
        if free < wanted:
            raise HistoryProblem(
                f"Only {free} MiB are free at {self._place}; the history needs at least {wanted} MiB.",
                "Free some space, lower history_mib or history_days, or choose another history_uri.",
            )

    def files(self) -> list[FileSize]:
        """See StoredTable."""
        return file_sizes(self._opened(), self._table)

    def remove_before(self, moment: datetime) -> None:
        """See StoredTable."""
        self._opened().delete(self._table.older_than(moment))

    def compact(self, day: date) -> None:
        """See StoredTable."""
        from deltalake import WriterProperties

        self._opened().optimize.compact(
            partition_filters=[(DAY, "=", str(day))],
            target_size=COMPACTED_BYTES,
            max_concurrent_tasks=1,
            writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=GROUP_ROWS),
        )

    def vacuum(self, hours: int) -> None:
        """See StoredTable."""
        self._opened().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)

    def _opened(self) -> DeltaTable:
        found = open_table(self._place)
        if found is None:
            raise FileNotFoundError(f"The table {self._place} is gone")
        return found


class ArrowCommit:
    """See Commit. It holds against the version of the table that it was begun with."""

    def __init__(
        self,
        delta: DeltaTable,
        root: Path,
        table: Table,
        ids: Iterable[str],
        connect: Callable[[], RecordReader],
        *,
        pace: WriterPace,
    ) -> None:
        self._delta, self._root, self._table, self._connect, self._pace = delta, root, table, connect, pace
        self.positions: Mapping[str, int | None] = {one: delta.transaction_version(one) for one in ids}
        self._files: dict[date, DayFile] = {}

    def write(self, ranges: Mapping[int, Range]) -> None:
        """See Commit."""
        starts = {partition: one.first for partition, one in ranges.items()}
        ends = {partition: one.end for partition, one in ranges.items()}
        with self._or_nothing(), contextlib.closing(self._connect()) as reader:
            for records in reader.read(self._table.topic, starts, ends):
                self._add(records)
                self._pace.rest()
            for file in self._files.values():
                file.finish()

    def finish(self, positions: Mapping[str, int]) -> None:
        """See Commit."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        versions = {VERSION_ID: VERSION, **positions}
        transactions = [Transaction(one, version) for one, version in versions.items()]
        try:
            self._delta.create_write_transaction(
                [file.action() for file in self._files.values()],
                "append",
                self._delta.schema(),
                [DAY],
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as error:
            if "Concurrent" not in str(error):
                raise
            self._discard()
            raise Conflict(str(error).splitlines()[0]) from error
        # Whatever else fails may have failed after the commit, which then names the files: they stay.

    def _add(self, records: list[LogRecord]) -> None:
        """Appends all of them at once: most of what few would cost is the same for each column."""
        row_of, by_day = ROW_OF[self._table.name], dict[date, list[Row]]()
        for number, record in enumerate(records, 1):
            row = row_of(record)
            if row is not None:
                by_day.setdefault(row[0], []).append(row)
            if number % STEP_RECORDS == 0:
                self._pace.rest()
        for day, rows in by_day.items():
            if day not in self._files:
                self._files[day] = DayFile(self._root, self._table, day)
            self._files[day].add(rows)

    @contextlib.contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """What fails before the commit leaves no files: where a disk is full, they would fill it more at each try."""
        try:
            yield
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        for file in self._files.values():
            file.discard()
