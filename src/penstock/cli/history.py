"""What the commands of the history share: whose history is meant, and what is said beside the answer."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.runtime.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.history.reader.history import History
    from penstock.history.reader.snapshot import RecordReader
    from penstock.settings import Settings

NICE = 5


def settings_of(data_dir: Path | None) -> Settings:
    """The settings of the stack that is meant, whether it runs or not. Raises UserError where there never was one."""
    from pydantic import ValidationError

    from penstock.engine import datadir
    from penstock.operations import installation
    from penstock.operations.settings_sources import load

    root = installation.folder_of(data_dir)
    file = root / datadir.SETTINGS_FILE
    if file.exists():
        try:
            return datadir.load_settings(file)
        except ValidationError:
            raise UserError(
                f"The stack of {root} was last started by another version of penstock.",
                "Use the `penstock` that started it, or start this one: penstock dev",
            ) from None
    settings = load(data_dir=data_dir).model_copy(update={"data_dir": root})
    if settings.kafka is None and settings.history_uri is None and not Path(settings.history_root).exists():
        raise UserError(f"There is no history in {root}, and no stack runs there.", "Start one: penstock dev")
    return settings


@contextlib.contextmanager
def opened(data_dir: Path | None) -> Iterator[History]:
    """The history of the installation; its errors become the command's."""
    from penstock.history.reader.history import History
    from penstock.history.schema.columns import HistoryProblem

    settings = settings_of(data_dir)
    with contextlib.suppress(OSError):
        os.nice(NICE)  # the query takes a little longer, so that deliveries do not
    try:
        with History(settings, connect_of(settings)) as history:
            yield history
            if history.without_kafka is not None:
                note_without_kafka(history.without_kafka)
    except HistoryProblem as problem:
        raise UserError(problem.what, problem.remedy) from None


def connect_of(settings: Settings) -> Callable[[Settings], RecordReader]:
    """How Kafka is reached. One that ended with its stack is not waited for."""
    from penstock.engine import datadir
    from penstock.kafka.ranges import RangeReader
    from penstock.kafka.topic_ends import KafkaAway

    def none(_: Settings) -> RecordReader:
        raise KafkaAway("no stack runs")

    return none if settings.kafka is None and not datadir.runs(settings.data_dir) else RangeReader


def note_without_kafka(reason: str) -> None:
    """Says that an answer does not reach up to this moment."""
    note(f"Kafka does not answer ({reason}): only what the tables have was looked at.")


def note(text: str) -> None:
    """Something beside the answer, which programs that read the answer do not see."""
    from rich.markup import escape

    from penstock.cli.terminal import SafeConsole

    SafeConsole(stderr=True, highlight=False, soft_wrap=True).print(f"[dim]{escape(text)}[/dim]")


# A question that takes a while, with a bar that shows how far it is, and a Ctrl-C that ends it.

LOOK_SECONDS = 0.1
END_SECONDS = 10.0


def with_progress(
    ask: Callable[[], pa.Table], progress: Callable[[], float], interrupt: Callable[[], None]
) -> pa.Table:
    """Asks in another thread, so that this one can show how far it is, and stop it.

    `progress` is in percent, below zero where that is not known."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    answers: list[pa.Table] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            problems.append(error)

    asking = threading.Thread(target=run, name="question", daemon=True)
    errors = Console(stderr=True)
    columns = (TextColumn("[dim]{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        asking.start()
        try:
            while asking.is_alive():
                asking.join(LOOK_SECONDS)
                done = progress()
                if done >= 0:
                    bar.update(task, description="asking", total=100, completed=done)
        except KeyboardInterrupt:
            interrupt()
            asking.join(END_SECONDS)  # what it uses is given back afterwards
            raise typer.Exit(130) from None
    if problems:
        raise problems[0]
    return answers[0]
