"""What the commands of the history share: whose history is meant, and what is said beside the answer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.problem import Problem

if TYPE_CHECKING:
    from penstock.history.reader.history import History
    from penstock.history.reader.moment import RecordReader
    from penstock.settings import Settings

NICE = 5


def settings_of(data_dir: Path | None) -> Settings:
    """The settings of the stack that is meant, whether it runs or not. Raises Problem where there never was one."""
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
            raise Problem(
                f"The stack of {root} was last started by another version of penstock.",
                "Use the `penstock` that started it, or start this one: penstock dev",
            ) from None
    settings = load(data_dir=data_dir).model_copy(update={"data_dir": root})
    if settings.kafka is None and settings.history_uri is None and not Path(settings.history_root).exists():
        raise Problem(f"There is no history in {root}, and no stack runs there.", "Start one: penstock dev")
    return settings


@contextlib.contextmanager
def opened(data_dir: Path | None) -> Iterator[History]:
    """The history of the installation; its errors become the command's."""
    from penstock.history.reader.history import History
    from penstock.history.schema.problem import HistoryProblem

    settings = settings_of(data_dir)
    with contextlib.suppress(OSError):
        os.nice(NICE)  # the query takes a little longer, so that deliveries do not
    try:
        with History(settings, connect_of(settings)) as history:
            yield history
            if history.without_kafka is not None:
                note_without_kafka(history.without_kafka)
    except HistoryProblem as problem:
        raise Problem(problem.what, problem.remedy) from None


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
