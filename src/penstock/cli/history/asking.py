"""What the commands of the history share: whose history is meant, since when, and what is said beside the answer."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.problem import Problem

if TYPE_CHECKING:
    from penstock.history.reader.history import History
    from penstock.history.reader.moment import Reader
    from penstock.settings import Settings

SinceOption = Annotated[
    str | None, typer.Option("--since", help="From when on: 90s, 30m, 1h, 7d, or 2026-11-17T10:00:00Z.")
]
UntilOption = Annotated[str | None, typer.Option("--until", help="Until when, likewise.")]

NICE = 5
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def moment(text: str | None, now: datetime | None = None) -> datetime | None:
    """A time as people write it: a span before now, or a moment. Raises Problem."""
    from penstock.timestamps import parse_rfc3339

    if text is None:
        return None
    spans = _SPAN.findall(text)
    if spans and "".join(number + unit for number, unit in spans) == text.strip():
        seconds = sum(float(number) * _UNITS[unit] for number, unit in spans)
        try:
            return (now or datetime.now(UTC)) - timedelta(seconds=seconds)
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_rfc3339(text.strip())
    except ValueError:
        raise Problem(
            f"{text!r} is no time.", "Write a span (90s, 30m, 1h, 7d) or a moment (2026-11-17T10:00:00Z).", exit_code=2
        ) from None


def window(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Both ends of a time. Raises Problem for one that lies in the future or ends before it begins."""
    begin, end = moment(since), moment(until)
    if begin is not None and begin > datetime.now(UTC):
        raise Problem(f"--since {since} is in the future: nothing has happened then.", exit_code=2)
    if begin is not None and end is not None and end <= begin:
        raise Problem(f"--until {until} is not after --since {since}.", exit_code=2)
    return begin, end


def settings_of(data_dir: Path | None) -> Settings:
    """The settings of the stack that is meant, whether it runs or not. Raises Problem where there never was one."""
    from penstock.engine import datadir
    from penstock.operations import installation
    from penstock.operations.settings_sources import load

    root = installation.folder_of(data_dir)
    file = root / datadir.SETTINGS_FILE
    if file.exists():
        return datadir.load_settings(file)
    settings = load(data_dir=data_dir).model_copy(update={"data_dir": root})
    if settings.kafka is None and settings.history_uri is None and not Path(settings.history_root).exists():
        raise Problem(f"There is no history in {root}, and no stack runs there.", "Start one: penstock dev")
    return settings


@contextlib.contextmanager
def opened(data_dir: Path | None) -> Iterator[History]:
    """The history that is meant; its problems are told as the command's."""
    from penstock.history.reader.history import History
    from penstock.history.schema.problem import HistoryProblem

    settings = settings_of(data_dir)
    with contextlib.suppress(OSError):
        os.nice(NICE)  # whoever asks waits a little longer, and events do not
    try:
        with History(settings, _connect(settings)) as history:
            yield history
            if history.without_kafka is not None:
                note(f"Kafka does not answer ({history.without_kafka}): only what the tables have was looked at.")
    except HistoryProblem as problem:
        raise Problem(problem.what, problem.remedy) from None


def _connect(settings: Settings) -> Callable[[Settings], Reader]:
    """How Kafka is reached. One that ended with its stack is not waited for."""
    from penstock.engine import datadir
    from penstock.log.ranges import RangeReader
    from penstock.log.topic_ends import KafkaAway

    def none(_: Settings) -> Reader:
        raise KafkaAway("no stack runs")

    return none if settings.kafka is None and not datadir.runs(settings.data_dir) else RangeReader


def note(text: str) -> None:
    """Something beside the answer, which programs that read the answer do not see."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[dim]{text}[/dim]")
