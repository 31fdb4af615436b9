"""A Delta table that is appended to: rows, and the offsets that they reach to, in one commit.

Delta keeps, for ids that an application chooses, a version each, in its log and in its checkpoints; they are meant for
exactly this. Spark's writer takes one such id for each commit, and there is one for each partition here, so the commit
is made by Delta's own transaction. It has read the versions, so that of two writers who began at the same offsets only
one commits, whichever was there first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.history.schema.columns import DAY, VERSION, VERSION_ID, Table
from penstock.history.schema.problem import HistoryProblem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROPERTIES = {
    "delta.enableDeletionVectors": "false",  # readers that only list files would see rows that are gone
    "delta.dataSkippingNumIndexedCols": "8",
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 hours",
}

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


class Conflict(RuntimeError):
    """Another writer has written the same records."""


class DeltaTable:
    """One table, in the JVM of a session."""

    def __init__(self, spark: SparkSession, place: str, table: Table) -> None:
        self.place, self.table = place, table
        self._spark = spark
        self._jvm: Any = spark._jvm

    def ensure(self) -> None:
        """Makes the table where there is none, and gives it the columns that it lacks. Raises HistoryProblem."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        self._spark.sql(
            f"create table if not exists {self.name} ({self.table.ddl()}) using delta partitioned by ({DAY}) "
            f"tblproperties ({properties})"
        )
        begun = self.begin([VERSION_ID])
        written = begun.positions[VERSION_ID]
        if written is not None and written > VERSION:
            raise HistoryProblem(
                f"The table {self.place} was written by a newer penstock (schema {written}; this one knows {VERSION}).",
                "Use that version, or choose another place with history_uri.",
            )
        present = self._spark.table(self.name).columns
        if written is None:
            if present != list(self.table.names):
                raise HistoryProblem(
                    f"{self.place} is a Delta table, but none of penstock's.", "Choose another place with history_uri."
                )
            begun.finish({})
        missing = [column for column in self.table.columns if column.name not in present]
        if missing:
            added = ", ".join(f"`{column.name}` {column.type}" for column in missing)
            self._spark.sql(f"alter table {self.name} add columns ({added})")

    @property
    def name(self) -> str:
        """The table's name in SQL."""
        return f"delta.`{self.place}`"

    def begin(self, ids: Iterable[str]) -> Commit:
        """A commit that holds if nobody else changes the versions of these ids meanwhile."""
        delta = self._jvm.org.apache.spark.sql.delta
        transaction = delta.DeltaLog.forTable(self._spark._jsparkSession, self.place).startTransaction()
        return Commit(self._jvm, transaction, ids)


class Commit:
    """Rows and positions that appear together, or not at all."""

    def __init__(self, jvm: Any, transaction: Any, ids: Iterable[str]) -> None:
        self._jvm, self._transaction = jvm, transaction
        self.version = int(transaction.readVersion())
        """Version of the table that it starts from."""
        versions = {one: int(transaction.txnVersion(one)) for one in ids}
        self.positions = {one: None if version < 0 else version for one, version in versions.items()}
        """What the table says of these ids; None where it never heard of them."""
        self._files: Any = None

    def write(self, rows: DataFrame) -> None:
        """Writes the files, which nobody sees yet."""
        self._files = self._transaction.writeFiles(rows._jdf)

    def finish(self, positions: Mapping[str, int]) -> int:
        """Makes what was written part of the table, with the positions after it. Raises Conflict."""
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
            return int(self._transaction.commit(converters.asScala(actions).toSeq(), operation))
        except Py4JJavaError as error:
            if "Concurrent" in str(error.java_exception.getClass().getName()):
                raise Conflict(str(error.java_exception.getMessage()).splitlines()[0]) from error
            raise
