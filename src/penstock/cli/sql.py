"""`penstock sql`: any question about events and attempts, up to this moment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from penstock.cli.history import connect_of, note, note_without_kafka
from penstock.cli.options import DataDirOption
from penstock.cli.result_formats import Format
from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.settings import Settings


class Engine(StrEnum):
    """Who answers."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def sql(
    statement: Annotated[str, typer.Argument(help="One SELECT over the tables events and attempts.")],
    *,
    form: Annotated[Format, typer.Option("--format", "-f", help="How the answer is printed.")] = Format.TABLE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write the answer to.")] = None,
    engine: Annotated[
        Engine, typer.Option(help="duckdb answers in a moment; spark where the tables are larger than this machine.")
    ] = Engine.DUCKDB,
    data_dir: DataDirOption = None,
) -> None:
    """Ask the history in SQL: what the tables have, and what Kafka has beyond them.

    penstock sql "select type, count(*) from events where arrival > now() - interval 1 hour group by type"
    """
    from penstock.cli import history as asking
    from penstock.cli.history import with_progress
    from penstock.cli.result_formats import write
    from penstock.cli.terminal import problems

    with problems():
        if engine is Engine.SPARK:
            with SparkQuestion(statement, asking.settings_of(data_dir)) as question:
                write(with_progress(question.ask, question.progress, question.interrupt), form, output)
            return
        with asking.opened(data_dir) as history:
            answer = with_progress(lambda: history.sql(statement), history.progress, history.interrupt)
            write(answer, form, output)


# `penstock sql --engine spark`: the same question to Spark, where the tables are larger than this machine.


class SparkQuestion:
    """One statement, and the session that answers it. `progress` and `interrupt` are for another thread."""

    def __init__(self, statement: str, settings: Settings) -> None:
        self._statement, self._settings = statement, settings
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None:
            self._spark.stop()

    def ask(self) -> pa.Table:
        """The answer. Raises UserError."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.logger import PySparkLogger

        from penstock.engine.history import spark as session
        from penstock.engine.history import spark as views
        from penstock.history.schema.columns import HistoryProblem

        # Spark would print whole stack traces beside this message.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        note("starting Spark")
        spark = session.open_session(self._settings, name="sql-spark")
        try:
            views.check_read_only(spark, self._statement)
            away = views.create_views(spark, self._settings, connect_of(self._settings))
            self._spark = spark
            answer = _named_once(spark.sql(self._statement)).toArrow()
        except HistoryProblem as problem:
            raise UserError(problem.what, problem.remedy) from None
        except (PySparkException, Py4JError) as error:
            raise UserError(f"The statement failed: {message_of(error)}") from None
        if away is not None:
            note_without_kafka(away)
        return answer

    def progress(self) -> float:
        """How much of what runs is done, in percent; below zero where nothing does yet."""
        if self._spark is None:
            return -1.0
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return 100.0 * done / tasks if tasks else -1.0

    def interrupt(self) -> None:
        """Ends what runs."""
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()


def message_of(error: Exception) -> str:
    """What Spark has to say, in a line: without the numbers of its errors, and without its plan."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.getMessage() or java.getClass().getName())
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line.partition(" SQLSTATE")[0]


def _named_once(answer: DataFrame) -> DataFrame:
    """Columns that have the same name get a number, as DuckDB does it: rows of them have one value for each name."""
    seen: dict[str, int] = {}
    names = []
    for name in answer.columns:
        seen[name] = seen.get(name, -1) + 1
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
    return answer.toDF(*names)
