"""`penstock sql`: a SELECT over events and attempts, by DuckDB or (`--engine spark`) by Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from penstock.cli.history import (
    history_settings,
    kafka_reader,
    note,
    note_without_kafka,
    open_history,
    with_progress,
)
from penstock.cli.options import DataDirOption
from penstock.cli.result_formats import Format
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.settings import Settings


class Engine(StrEnum):
    """What runs the query."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def sql(
    statement: Annotated[str, typer.Argument(help="One SELECT over the tables events and attempts.")],
    *,
    form: Annotated[Format, typer.Option("--format", "-f", help="Format of the result.")] = Format.TABLE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write the result to.")] = None,
    engine: Annotated[
        Engine, typer.Option(help="duckdb starts fast; spark is for tables larger than this machine.")
    ] = Engine.DUCKDB,
    data_dir: DataDirOption = None,
) -> None:
    """Query events and attempts in SQL: the tables of the history, and newer records in Kafka.

    penstock sql "select type, count(*) from events where arrival > now() - interval 1 hour group by type"
    """
    from penstock.cli.result_formats import write
    from penstock.cli.terminal import problems

    with problems():
        if engine is Engine.SPARK:
            with SparkQuery(statement, history_settings(data_dir)) as query:
                write(with_progress(query.run, query.progress, query.interrupt), form, output)
            return
        with open_history(data_dir) as history:
            result = with_progress(lambda: history.sql(statement), history.progress, history.interrupt)
            write(result, form, output)


class SparkQuery:
    """One statement, and the session that runs it. `progress` and `interrupt` may be called by another thread."""

    def __init__(self, statement: str, settings: Settings) -> None:
        self._statement, self._settings = statement, settings
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None:
            self._spark.stop()

    def run(self) -> pa.Table:
        """The result. Raises UserError."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.logger import PySparkLogger

        from penstock.engine.history import spark as history_views
        from penstock.history.schema.columns import HistoryProblem

        # Spark would print whole stack traces beside this message.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        note("starting Spark")
        spark = history_views.open_session(self._settings, name="sql-spark")
        try:
            history_views.check_read_only(spark, self._statement)
            without_kafka = history_views.create_views(spark, self._settings, kafka_reader(self._settings))
            self._spark = spark
            result = _with_unique_names(spark.sql(self._statement)).toArrow()
        except HistoryProblem as problem:
            raise UserError(problem.what, problem.remedy) from None
        except (PySparkException, Py4JError) as error:
            raise UserError(f"The query failed: {message_of(error)}") from None
        if without_kafka is not None:
            note_without_kafka(without_kafka)
        return result

    def progress(self) -> float:
        """Percent of the running stages that is done; negative before any runs."""
        if self._spark is None:
            return -1.0
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return 100.0 * done / tasks if tasks else -1.0

    def interrupt(self) -> None:
        """Cancels the running jobs."""
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()


def message_of(error: Exception) -> str:
    """The first line of Spark's message, without error codes and query plan."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line.partition(" SQLSTATE")[0]


def _with_unique_names(result: DataFrame) -> DataFrame:
    """Numbers columns of the same name, as DuckDB does, since a row has one value for each name."""
    seen: dict[str, int] = {}
    names = []
    for name in result.columns:
        seen[name] = seen.get(name, -1) + 1
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
    return result.toDF(*names)
