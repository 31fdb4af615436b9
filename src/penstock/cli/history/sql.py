"""`penstock sql`: any question about events and attempts, up to this moment."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.history.output import Format
from penstock.cli.options import DataDirOption


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
    from penstock.cli.history import asking
    from penstock.cli.history.output import write
    from penstock.cli.history.progress import with_progress
    from penstock.cli.terminal import problems

    with problems():
        if engine is Engine.SPARK:
            from penstock.cli.history.by_spark import SparkQuestion

            with SparkQuestion(statement, asking.settings_of(data_dir)) as question:
                write(with_progress(question.ask, question.progress, question.interrupt), form, output)
            return
        with asking.opened(data_dir) as history:
            answer = with_progress(lambda: history.sql(statement), history.progress, history.interrupt)
            write(answer, form, output)
