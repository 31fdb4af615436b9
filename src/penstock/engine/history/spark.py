"""A Spark session that reads and writes the tables of the history. The pipeline's own knows nothing of Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from penstock.engine import jars, java, spark
from penstock.engine.jar_files import ivy
from penstock.history.reader.snapshot import RecordReader
from penstock.history.schema.columns import TABLES, VERSION, VERSION_ID, HistoryProblem, Table, newer
from penstock.history.writer.spark_table import SparkTable, rows_between
from penstock.history.writer.stored_table import next_ranges
from penstock.kafka.ranges import RangeReader
from penstock.kafka.topic_ends import KafkaAway, Retained
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL_TASKS = 2
BLOCK_BYTES = 32 * 2**20
"""What a Parquet writer gathers in memory before it writes."""


def open_session(
    settings: Settings, name: str = "history-spark", jvm_ended: Callable[[int], None] = lambda code: None
) -> SparkSession:
    """Starts Spark with Delta in this process; fetches Delta's jars first if need be. Raises Problem."""
    found = java.find()
    delta = jars.resolve(settings, found, wanted=ivy.HISTORY)
    own = jars.resolve(settings, found)
    addition = spark.Addition(name, config_of(settings), tuple(delta.delta_files))
    (settings.data_dir / "logs").mkdir(parents=True, exist_ok=True)
    return spark.open_session(settings, own, found.home, jvm_ended, addition)


def config_of(settings: Settings) -> dict[str, str]:
    """What differs from the pipeline's session."""
    from penstock.history.schema import frames
    from penstock.history.writer import spark_table

    local = {} if settings.on_cluster else {"spark.master": f"local[{LOCAL_TASKS}]"}
    return {
        **frames.SESSION,
        **spark_table.SESSION,
        **local,
        "spark.app.name": "penstock history",
        "spark.sql.shuffle.partitions": str(LOCAL_TASKS),
        "spark.task.maxFailures": "4",
        "spark.hadoop.parquet.block.size": str(BLOCK_BYTES),
        "spark.databricks.delta.optimize.minFileSize": str(16 * 2**20),
        "spark.databricks.delta.optimize.maxFileSize": str(256 * 2**20),
        "spark.databricks.delta.optimize.maxThreads": "1",
    }


# The tables and the rest of Kafka as views of a Spark session: what DuckDB answers, for tables of any size.

ALL = 2**62


def make(
    spark: SparkSession, settings: Settings, connect: Callable[[Settings], RecordReader] = RangeReader
) -> str | None:
    """Makes the views `events` and `attempts`, as of this moment; why they do not reach beyond the tables, or None."""
    from pyspark.sql import functions as F

    away = None
    for table in TABLES:
        retained: dict[int, Retained] = {}
        try:
            retained = _retained(settings, table, connect)
        except KafkaAway as error:
            away = str(error)
        rows = _rows_of(spark, settings, table, retained)
        if "data" in table.names:
            rows = rows.withColumn("text", F.when(F.is_valid_utf8("data"), F.col("data").cast("string")))
        rows.createOrReplaceTempView(table.name)
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    return away


def _rows_of(spark: SparkSession, settings: Settings, table: Table, retained: dict[int, Retained]) -> DataFrame:
    stored = SparkTable(spark, settings, table)
    positions: dict[int, int | None] = {}
    written = None
    if stored.exists():
        ids = {partition: table.position(partition) for partition in range(max(len(retained), settings.partitions))}
        begun = stored.begin([VERSION_ID, *ids.values()])
        if (by := begun.positions[VERSION_ID]) is not None and by > VERSION:
            raise newer(stored.place, by, VERSION)
        positions = {partition: begun.positions[one] for partition, one in ids.items()}
        written = (
            spark.read.format("delta").option("versionAsOf", begun.version).load(stored.place).select(*table.names)
        )
    beyond = next_ranges(retained, positions, ALL)
    if not beyond.ranges:
        return written if written is not None else spark.createDataFrame([], table.ddl())
    rest = rows_between(spark, settings, table, beyond.ranges)
    return rest if written is None else written.unionByName(rest)


def check(spark: SparkSession, statement: str) -> None:
    """Raises HistoryProblem for a statement that does more than read, before it does anything."""
    session, jvm = spark._jsparkSession.sessionState(), cast("Any", spark._jvm)
    plan = session.sqlParser().parsePlan(statement)
    kinds = {str(node.nodeName()) for node in _nodes(plan)}
    if kinds - READING:
        raise HistoryProblem(
            f"Only a single SELECT, FROM or DESCRIBE statement is allowed; this one contains "
            f"{', '.join(sorted(kinds - READING))}."
        )
    for name in CALLS_ANYTHING:
        builtin = (jvm.scala.Option.apply(part) for part in ("builtin", "system"))
        session.functionRegistry().dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, *builtin))


CALLS_ANYTHING = ("java_method", "reflect", "try_reflect")
"""Functions that call any method of Java, which can do more than read."""

READING = frozenset(
    {
        *("Project", "Filter", "Aggregate", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Distinct", "Deduplicate"),
        *("Join", "Union", "Except", "Intersect", "SubqueryAlias", "UnresolvedSubqueryColumnAliases", "Window"),
        *("UnresolvedRelation", "UnresolvedWith", "OneRowRelation", "LocalRelation", "UnresolvedInlineTable"),
        *(
            "UnresolvedHaving",
            "WithWindowDefinition",
            "Generate",
            "Pivot",
            "Unpivot",
            "Sample",
            "LateralJoin",
            "Values",
            "DescribeRelation",
            "UnresolvedTableOrView",
        ),
    }
)
"""The kinds of a parsed statement's nodes that only read."""


def _nodes(plan: Any) -> Iterator[Any]:
    """All nodes of a plan by their number, which counts those of a WITH as well."""
    number = 0
    while (node := plan.apply(number)) is not None:
        yield node
        number += 1


def _retained(settings: Settings, table: Table, connect: Callable[[Settings], RecordReader]) -> dict[int, Retained]:
    """What Kafka holds. Raises KafkaAway."""
    reader = connect(settings)
    try:
        return reader.retained(table.topic)
    finally:
        reader.close()
