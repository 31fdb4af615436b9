"""A question that takes a while, with a bar that shows how far it is, and a Ctrl-C that ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pyarrow as pa

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
