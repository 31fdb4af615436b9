"""The history writer: appends new records of Kafka to the tables, and maintains the tables.

`error_message` turns an error into one line that names the setting to check.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from penstock.engine.history.progress_file import HistoryProgress
from penstock.history.reader.tables import S3A
from penstock.history.schema.columns import TABLES, HistoryProblem, Table, TableName
from penstock.history.writer import upkeep
from penstock.history.writer.arrow_table import ArrowTable
from penstock.history.writer.batches import Batches, Written
from penstock.history.writer.plan import WriterPace
from penstock.history.writer.spark_table import SparkTable
from penstock.history.writer.stored_table import StoredTable
from penstock.kafka.ranges import RangeReader, RecordsGone
from penstock.runtime.errors import UserError
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VACUUM_EVERY_HOURS = 2.0
"""Deleted and rewritten files take disk space until then."""

log = structlog.get_logger()


TableFactory = Callable[[Table], StoredTable]


def by_arrow(settings: Settings, pace: WriterPace | None = None) -> TableFactory:
    """Tables that are written with deltalake and Arrow."""
    return partial(ArrowTable, settings, pace=pace)


def by_spark(settings: Settings, spark: SparkSession) -> TableFactory:
    """Tables that are written by Spark."""
    return partial(SparkTable, spark, settings)


def table_factory(settings: Settings, pace: WriterPace | None = None) -> TableFactory:
    """Spark for a URI; a local folder is written without it, because Spark takes longer to start than to write."""
    if "://" in settings.history_root:
        from penstock.engine.history.spark import open_session

        return by_spark(settings, open_session(settings))
    return by_arrow(settings, pace)


class HistoryWriter:
    """Writes both tables."""

    def __init__(
        self,
        settings: Settings,
        factory: TableFactory,
        on_written: Callable[[Written], None] = lambda written: None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._on_written, self._before_commit = settings, on_written, before_commit
        self._stored: dict[TableName, StoredTable] = {table.name: factory(table) for table in TABLES}
        self._progress = HistoryProgress.read(settings.data_dir)
        self.begun_anew: list[str] = []
        """Tables that had been written before and are gone."""
        for name, stored in self._stored.items():
            made = stored.ensure()
            if made and self._progress.positions.get(name):
                self.begun_anew.append(name)
                log.warning("the table is gone: a new one begins with what Kafka still has", table=name)

    def write(self) -> int:
        """Writes the records that are in Kafka and not in the tables; returns their number. Raises KafkaAway."""
        reader = RangeReader(self._settings)
        try:
            records = sum(self._write(table, reader) for table in TABLES)
        finally:
            reader.close()
        self._progress.written = time.time()
        self._progress.write(self._settings.data_dir)
        return records

    def _write(self, table: Table, reader: RangeReader) -> int:
        batches = Batches(self._stored[table.name], table, before_commit=self._before_commit)
        records, retained, rest = 0, reader.retained(table.topic), True
        while rest:
            try:
                written = batches.write(retained)
            except RecordsGone:
                retained = reader.retained(table.topic)  # the next batch reports the lost records and begins after them
                continue
            if written is None:
                break
            records, rest = records + written.records, written.rest > 0
            self._progress.positions[table.name] = written.positions
            self._progress.write(self._settings.data_dir)
            log.info("written to the history", **written.__dict__)
            self._on_written(written)
        return records

    def maintain(self) -> None:
        """Removes old days, compacts small files, and from time to time removes unreferenced files."""
        files = [upkeep.DataFile(name, *file) for name, stored in self._stored.items() for file in stored.files()]
        wanted = upkeep.plan(files, _today(), self._settings.history_days, self._settings.history_mib)
        if wanted.remove_before is not None or wanted.compact:
            log.info("maintaining the history", removed_before=wanted.remove_before, compacted=len(wanted.compact))
            upkeep.carry_out(self._stored, wanted)
        if time.time() - self._progress.vacuumed > VACUUM_EVERY_HOURS * 3600:
            for stored in self._stored.values():
                stored.vacuum(upkeep.VACUUM_HOURS)
            self._progress.vacuumed = time.time()
            self._progress.write(self._settings.data_dir)


def _today() -> date:
    return datetime.now(UTC).date()


MOST_CHARACTERS = 300

_REMEDIES = (
    (
        r'No FileSystem for scheme "?([\w+.-]+)',
        "Check history_uri: Spark does not support {}:// without further jars (spark.jars in spark_conf).",
    ),
    (
        r"Class (org\.apache\.hadoop\.fs\.\S+|com\.google\.\S+) not found",
        "The jars with {} are missing: add them to spark.jars in spark_conf. For s3a:// these are hadoop-aws in the "
        "version of Spark's Hadoop, and its dependencies.",
    ),
    (
        "AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 403|NoAuthWithAWSException",
        f"Its credentials were refused: check {S3A}… in spark_conf, or AWS_… in the environment.",
    ),
    (
        "NoSuchBucket|UnknownStoreException",
        "Check history_uri: the bucket does not exist.",
    ),
)
"""Patterns of errors of remote file systems, and the remedies."""


def error_message(error: Exception, settings: Settings) -> str:
    """The error in one line, with the setting to check."""
    if isinstance(error, HistoryProblem | UserError):
        return f"{error.what} {error.remedy}".strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or settings.history_root}: {error.strerror}"
    text = str(error)
    for pattern, remedy in _REMEDIES:
        if "://" in settings.history_root and (found := re.search(pattern, text)) is not None:
            reason = _java_cause(text) or type(error).__name__
            return f"{settings.history_root}: {reason.rstrip('.')}. {remedy.format(*found.groups())}"
    return (_java_cause(text) or f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")[:MOST_CHARACTERS]


def _java_cause(text: str) -> str | None:
    """The first line of a Java stack trace that contains an exception."""
    for line in text.splitlines():
        cause = line.strip()
        if cause.startswith("Caused by: ") or "Exception: " in cause:
            return cause.removeprefix("Caused by: ").removeprefix(": ")[:MOST_CHARACTERS]
    return None
