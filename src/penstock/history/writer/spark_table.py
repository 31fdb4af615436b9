"""The tables as Spark writes them: for any place that it can write to, with as many machines as it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from penstock.history.reader.tables import FileSize, location
from penstock.history.schema.columns import DAY, VERSION, VERSION_ID, Table, foreign, newer
from penstock.history.writer.stored_table import PROPERTIES, Conflict, Range, offsets_json
from penstock.kafka.clients import spark_options, topic_name
from penstock.runtime.times import parse_rfc3339
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 2
"""Files of one commit and day: each task reads several partitions, so that many partitions make no small files."""

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    # By default a removal of files starts ten thousand tasks to list a handful of folders.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
"""What the session must be set to."""


class SparkTable:
    """One table, in the JVM of a session."""

    def __init__(self, spark: SparkSession, settings: Settings, table: Table) -> None:
        self.place, self.table = location(settings.history_root, table), table
        self._spark, self._settings = spark, settings
        self._jvm: Any = spark._jvm

    def exists(self) -> bool:
        """Whether there is a table."""
        delta = self._jvm.org.apache.spark.sql.delta
        return bool(delta.DeltaLog.forTable(self._spark._jsparkSession, self.place).tableExists())

    def ensure(self) -> bool:
        """See StoredTable."""
        made = not self.exists()
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        self._spark.sql(
            f"create table if not exists {self.name} ({self.table.ddl()}) using delta partitioned by ({DAY}) "
            f"tblproperties ({properties})"
        )
        begun = self.begin([VERSION_ID])
        written = begun.positions[VERSION_ID]
        if written is not None and written > VERSION:
            raise newer(self.place, written, VERSION)
        present = self._spark.table(self.name).columns
        if written is None:
            if present != list(self.table.names):
                raise foreign(self.place)
            begun.finish({})
        missing = [column for column in self.table.columns if column.name not in present]
        if missing:
            added = ", ".join(f"`{column.name}` {column.type}" for column in missing)
            self._spark.sql(f"alter table {self.name} add columns ({added})")
        return made

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return f"delta.`{self.place}`"

    def begin(self, ids: Iterable[str]) -> SparkCommit:
        """A commit that holds if the versions of these ids do not change in the meantime."""
        delta = self._jvm.org.apache.spark.sql.delta
        transaction = delta.DeltaLog.forTable(self._spark._jsparkSession, self.place).startTransaction()
        return SparkCommit(self._jvm, transaction, ids, self._rows)

    def files(self) -> list[FileSize]:
        """See StoredTable."""
        from pyspark.sql import DataFrame

        delta = self._jvm.org.apache.spark.sql.delta
        begun = delta.DeltaLog.forTable(self._spark._jsparkSession, self.place).startTransaction()
        files = DataFrame(begun.snapshot().allFiles().toDF(), self._spark).select(
            f"partitionValues.{DAY}", "size", "stats"
        )
        return [file_size(row[DAY], row["size"], row["stats"], self.table) for row in files.collect()]

    def remove_before(self, moment: datetime) -> None:
        """See StoredTable."""
        self._spark.sql(f"delete from {self.name} where {self.table.older_than(moment)}")  # noqa: S608

    def compact(self, day: date) -> None:
        """See StoredTable."""
        self._spark.sql(f"optimize {self.name} where {DAY} = date'{day}'")

    def vacuum(self, hours: int) -> None:
        """See StoredTable."""
        self._spark.sql(f"vacuum {self.name} retain {hours} hours")

    def _rows(self, ranges: Mapping[int, Range]) -> DataFrame:
        return rows_between(self._spark, self._settings, self.table, ranges).coalesce(FILES)


class SparkCommit:
    """A transaction of Delta in the JVM. Spark's own writer takes one id for each commit, so it is not used."""

    def __init__(
        self, jvm: Any, transaction: Any, ids: Iterable[str], rows: Callable[[Mapping[int, Range]], DataFrame]
    ) -> None:
        self._jvm, self._transaction, self._rows = jvm, transaction, rows
        self.version = int(transaction.readVersion())
        """Version of the table that it starts from."""
        versions = {one: int(transaction.txnVersion(one)) for one in ids}
        self.positions = {one: None if version < 0 else version for one, version in versions.items()}
        """What the table says of these ids; None where it never heard of them."""
        self._files: Any = None

    def write(self, ranges: Mapping[int, Range]) -> None:
        """See Commit."""
        self._files = self._transaction.writeFiles(self._rows(ranges)._jdf)

    def finish(self, positions: Mapping[str, int]) -> None:
        """See Commit."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        jvm = self._jvm
        converters = jvm.scala.jdk.javaapi.CollectionConverters
        delta, none = jvm.org.apache.spark.sql.delta, jvm.scala.Option.apply(None)
        actions = jvm.java.util.ArrayList()
        if self._files is not None:
            actions.addAll(converters.asJava(self._files))
        for one, version in {VERSION_ID: VERSION, **positions}.items():
            actions.add(delta.actions.SetTransaction(one, version, none))
        mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        operation = getattr(delta, "DeltaOperations$StreamingUpdate")(mode, "penstock", 0, none)
        try:
            self._transaction.commit(converters.asScala(actions).toSeq(), operation)
        except Py4JJavaError as error:
            if "Concurrent" in str(error.java_exception.getClass().getName()):
                raise Conflict(str(error.java_exception.getMessage()).splitlines()[0]) from error
            raise


def file_size(day: str, size: int, stats: str | None, table: Table) -> FileSize:
    """A file as recorded in Delta's log."""
    newest = json.loads(stats or "{}").get("maxValues", {}).get(table.moment)
    return FileSize(date.fromisoformat(day), size, parse_rfc3339(newest) if newest else None)


def rows_between(spark: SparkSession, settings: Settings, table: Table, ranges: Mapping[int, Range]) -> DataFrame:
    """The records of the table's topic between offsets, as its rows."""
    from penstock.history.schema import frames

    records = read_ranges(spark, settings, table.topic, ranges)
    return frames.event_rows(records) if table.name == "events" else frames.attempt_rows(records)


def read_ranges(spark: SparkSession, settings: Settings, topic: str, ranges: Mapping[int, Range]) -> DataFrame:
    """The records of a topic between offsets, as Spark's Kafka source gives them."""
    name = topic_name(settings, topic)
    return (
        spark.read.format("kafka")
        .options(**spark_options(settings))
        .option("groupIdPrefix", f"{settings.topic_prefix}-history")
        .option("subscribe", name)
        .option("startingOffsets", json.dumps(offsets_json(name, ranges, end=False)))
        .option("endingOffsets", json.dumps(offsets_json(name, ranges, end=True)))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.partition.fetch.bytes", str(max(settings.max_record_bytes, 2**20)))
        .load()
    )
