"""What `penstock events`, `trace` and `sql` share: opening the history, notes on standard error, and a progress bar
for queries that take a while.
"""

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
PROGRESS_SECONDS = 0.1
INTERRUPT_SECONDS = 10.0


def history_settings(data_dir: Path | None) -> Settings:
    """The settings of the chosen stack, running or not. Raises UserError if there never was one."""
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
                "Use that version, or start the stack with this one: penstock dev",
            ) from None
    settings = load(data_dir=data_dir).model_copy(update={"data_dir": root})
    if settings.kafka is None and settings.history_uri is None and not Path(settings.history_root).exists():
        raise UserError(f"{root} has no history, and no stack is running there.", "Start one: penstock dev")
    return settings


@contextlib.contextmanager
def open_history(data_dir: Path | None) -> Iterator[History]:
    """The history of the chosen stack; its errors become errors of the command."""
    from penstock.history.reader.history import History
    from penstock.history.schema.columns import HistoryProblem

    settings = history_settings(data_dir)
    with contextlib.suppress(OSError):
        os.nice(NICE)  # queries yield to deliveries
    try:
        with History(settings, kafka_reader(settings)) as history:
            yield history
            if history.without_kafka is not None:
                note_without_kafka(history.without_kafka)
    except HistoryProblem as problem:
        raise UserError(problem.what, problem.remedy) from None


def kafka_reader(settings: Settings) -> Callable[[Settings], RecordReader]:
    """How to read Kafka. If the stack with its embedded Kafka is stopped, this fails at once instead of waiting."""
    from penstock.engine import datadir
    from penstock.kafka.ranges import RangeReader
    from penstock.kafka.topic_ends import KafkaAway

    def unavailable(_: Settings) -> RecordReader:
        raise KafkaAway("no stack runs")

    return unavailable if settings.kafka is None and not datadir.runs(settings.data_dir) else RangeReader


def note_without_kafka(reason: str) -> None:
    """Notes that the result lacks the newest events."""
    note(f"Kafka is unreachable ({reason}): the result contains only what is in the tables.")


def note(text: str) -> None:
    """Prints a note to standard error, apart from the result."""
    from rich.markup import escape

    from penstock.cli.terminal import SafeConsole

    SafeConsole(stderr=True, highlight=False, soft_wrap=True).print(f"[dim]{escape(text)}[/dim]")


def with_progress(
    ask: Callable[[], pa.Table], progress: Callable[[], float], interrupt: Callable[[], None]
) -> pa.Table:
    """Runs `ask` in another thread while this one shows its progress and handles Ctrl-C.

    `progress` returns percent, or a negative number if unknown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    results: list[pa.Table] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(ask())
        except BaseException as error:
            problems.append(error)

    asking = threading.Thread(target=run, name="query", daemon=True)
    errors = Console(stderr=True)
    columns = (TextColumn("[dim]{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        asking.start()
        try:
            while asking.is_alive():
                asking.join(PROGRESS_SECONDS)
                done = progress()
                if done >= 0:
                    bar.update(task, description="querying", total=100, completed=done)
        except KeyboardInterrupt:
            interrupt()
            asking.join(INTERRUPT_SECONDS)  # so that it can release its resources
            raise typer.Exit(130) from None
    if problems:
        raise problems[0]
    return results[0]
