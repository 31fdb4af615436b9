"""What the writer does: write until the tables have what was there, then look after them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from penstock.engine.history.files import Hint
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
"""What was removed or written anew takes room until then."""

log = structlog.get_logger()


StoreOf = Callable[[Table], StoredTable]


def by_arrow(settings: Settings, pace: WriterPace | None = None) -> StoreOf:
    """Tables that this process writes itself."""
    return partial(ArrowTable, settings, pace=pace)


def by_spark(settings: Settings, spark: SparkSession) -> StoreOf:
    """Tables that Spark writes."""
    return partial(SparkTable, spark, settings)


def fitting(settings: Settings, pace: WriterPace | None = None) -> StoreOf:
    """A folder of this machine is written without Spark, which would take ten times as long to start as to write."""
    if "://" in settings.history_root:
        from penstock.engine.history.spark import open_session

        return by_spark(settings, open_session(settings))
    return by_arrow(settings, pace)


class HistoryWriter:
    """Writes both tables."""

    def __init__(
        self,
        settings: Settings,
        store_of: StoreOf,
        told: Callable[[Written], None] = lambda written: None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._told, self._before_commit = settings, told, before_commit
        self._stored: dict[TableName, StoredTable] = {table.name: store_of(table) for table in TABLES}
        self._hint = Hint.read(settings.data_dir)
        self.begun_anew: list[str] = []
        """Tables that had been written before, and were not there any more."""
        for name, stored in self._stored.items():
            made = stored.ensure()
            if made and self._hint.positions.get(name):
                self.begun_anew.append(name)
                log.warning("the table is gone: a new one begins with what Kafka still has", table=name)

    def write(self) -> int:
        """Writes what Kafka holds now and the tables lack; how many records that was. Raises KafkaAway."""
        reader = RangeReader(self._settings)
        try:
            records = sum(self._write(table, reader) for table in TABLES)
        finally:
            reader.close()
        self._hint.written = time.time()
        self._hint.write(self._settings.data_dir)
        return records

    def _write(self, table: Table, reader: RangeReader) -> int:
        batches = Batches(self._stored[table.name], table, before_commit=self._before_commit)
        records, retained, rest = 0, reader.retained(table.topic), True
        while rest:
            try:
                written = batches.write(retained)
            except RecordsGone:
                retained = reader.retained(table.topic)  # the next batch says what is lost, and begins after it
                continue
            if written is None:
                break
            records, rest = records + written.records, written.rest > 0
            self._hint.positions[table.name] = written.positions
            self._hint.write(self._settings.data_dir)
            log.info("written to the history", **written.__dict__)
            self._told(written)
        return records

    def look_after(self) -> None:
        """Removes old days, puts small files together, and now and then removes files that belong to nothing."""
        files = [upkeep.DataFile(name, *file) for name, stored in self._stored.items() for file in stored.files()]
        wanted = upkeep.plan(files, _today(), self._settings.history_days, self._settings.history_mib)
        if wanted.remove_before is not None or wanted.compact:
            log.info("looking after the history", removed_before=wanted.remove_before, compacted=len(wanted.compact))
            upkeep.carry_out(self._stored, wanted)
        if time.time() - self._hint.vacuumed > VACUUM_EVERY_HOURS * 3600:
            for stored in self._stored.values():
                stored.vacuum(upkeep.VACUUM_HOURS)
            self._hint.vacuumed = time.time()
            self._hint.write(self._settings.data_dir)


def _today() -> date:
    return datetime.now(UTC).date()


# Why writing failed, in a line for people: what happened, and which setting to look at.

MOST_CHARACTERS = 300

_REMEDIES = (
    (
        r'No FileSystem for scheme "?([\w+.-]+)',
        "Look at history_uri: Spark knows no {}://. Jars of others are named in spark_conf, by spark.jars.",
    ),
    (
        r"Class (org\.apache\.hadoop\.fs\.\S+|com\.google\.\S+) not found",
        "The jars that have {} are missing: name them in spark_conf, by spark.jars. For s3a:// these are hadoop-aws in "
        "the version of Spark's Hadoop, and what it depends on.",
    ),
    (
        "AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Status Code: 403|NoAuthWithAWSException",
        f"Its credentials were refused: look at {S3A}… in spark_conf, or at AWS_… in the environment.",
    ),
    (
        "NoSuchBucket|UnknownStoreException",
        "Look at history_uri: the bucket is not there.",
    ),
)
"""What a failure of another file system looks like, and what to do then."""


def told(error: Exception, settings: Settings) -> str:
    """Why writing failed, in a line."""
    if isinstance(error, HistoryProblem | UserError):
        return f"{error.what} {error.remedy}".strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or settings.history_root}: {error.strerror}"
    text = str(error)
    for pattern, remedy in _REMEDIES:
        if "://" in settings.history_root and (found := re.search(pattern, text)) is not None:
            reason = _cause(text) or type(error).__name__
            return f"{settings.history_root}: {reason.rstrip('.')}. {remedy.format(*found.groups())}"
    return (_cause(text) or f"{type(error).__name__}: {text.splitlines()[0] if text else ''}")[:MOST_CHARACTERS]


def _cause(text: str) -> str | None:
    """The first line of a Java stack trace that names an exception."""
    for line in text.splitlines():
        cause = line.strip()
        if cause.startswith("Caused by: ") or "Exception: " in cause:
            return cause.removeprefix("Caused by: ").removeprefix(": ")[:MOST_CHARACTERS]
    return None
