"""The tables and the rest of Kafka as views of a Spark session: what DuckDB answers, for tables of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.history.schema.columns import TABLES, Table
from penstock.history.schema.problem import HistoryProblem
from penstock.history.writer.ranges import next_ranges
from penstock.history.writer.spark_table import SparkTable, rows_between
from penstock.log.ranges import RangeReader
from penstock.log.topic_ends import KafkaAway, Retained
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = 2**62


def make(spark: SparkSession, settings: Settings) -> None:
    """Makes the views `events` and `attempts`, as of this moment."""
    for table in TABLES:
        rows_of(spark, settings, table).createOrReplaceTempView(table.name)


def rows_of(spark: SparkSession, settings: Settings, table: Table) -> DataFrame:
    """The rows of the table, and those of Kafka beyond it: what a backtest reads, too."""
    retained = _retained(settings, table)
    stored = SparkTable(spark, settings, table)
    positions: dict[int, int | None] = {}
    written = None
    if stored.exists():
        ids = {partition: table.position(partition) for partition in range(max(len(retained), settings.partitions))}
        begun = stored.begin(ids.values())
        positions = {partition: begun.positions[one] for partition, one in ids.items()}
        written = (
            spark.read.format("delta").option("versionAsOf", begun.version).load(stored.place).select(*table.names)
        )
    beyond = next_ranges(retained, positions, ALL)
    if not beyond.ranges:
        return written if written is not None else spark.createDataFrame([], table.ddl())
    rest = rows_between(spark, settings, table, beyond.ranges)
    return rest if written is None else written.unionByName(rest)


def query(spark: SparkSession, statement: str) -> DataFrame:
    """The answer to a statement that only reads. Raises HistoryProblem for any other, before it does anything."""
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    kinds = {str(plan.apply(number).nodeName()) for number in range(_size(plan))}
    if kinds - READING:
        raise HistoryProblem(
            f"Only a statement that reads is taken; this one holds {', '.join(sorted(kinds - READING))}."
        )
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    return spark.sql(statement)


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
        ),
    }
)
"""The kinds of a parsed statement's nodes that only read."""


def _size(plan: object) -> int:
    """How many nodes there are below a node of a plan, itself included."""
    children = plan.children()  # type: ignore[attr-defined]
    return 1 + sum(_size(children.apply(number)) for number in range(children.size()))


def _retained(settings: Settings, table: Table) -> dict[int, Retained]:
    reader = RangeReader(settings)
    try:
        return reader.retained(table.topic)
    except KafkaAway:
        return {}
    finally:
        reader.close()
