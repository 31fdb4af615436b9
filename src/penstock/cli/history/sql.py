"""`penstock sql`: any question about events and attempts, up to this moment."""

from __future__ import annotations

import threading
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.history.output import Format
from penstock.cli.installation import DataDirOption

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.history.reader.history import History

LOOK_SECONDS = 0.1


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
    from penstock.cli.terminal import problems

    with problems():
        if engine is Engine.SPARK:
            from penstock.cli.history.by_spark import answer as by_spark

            write(by_spark(statement, asking.settings_of(data_dir)), form, output)
            return
        with asking.opened(data_dir) as history:
            write(_with_progress(history, statement), form, output)


def _with_progress(history: History, statement: str) -> pa.Table:
    """Asks in another thread, so that this one can show how far it is, and stop it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    answers: list[pa.Table] = []
    problems: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(history.sql(statement))
        except BaseException as error:
            problems.append(error)

    asking = threading.Thread(target=ask, name="question", daemon=True)
    errors = Console(stderr=True)
    columns = (TextColumn("[dim]{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        asking.start()
        try:
            while asking.is_alive():
                asking.join(LOOK_SECONDS)
                done = history.progress()
                if done >= 0:
                    bar.update(task, description="asking", total=100, completed=done)
        except KeyboardInterrupt:
            history.interrupt()
            raise typer.Exit(130) from None
    if problems:
        raise problems[0]
    return answers[0]
