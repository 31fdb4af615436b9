"""`penstock trace`: what happened to an event: its arrival, every delivery attempt, and the replies to it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.events import as_data, clock
from penstock.cli.history import open_history
from penstock.cli.options import DataDirOption, JsonOption
from penstock.cli.output import say
from penstock.operations.formatting import result_text, route_text

if TYPE_CHECKING:
    from penstock.history.reader.answers import Attempt, Traced

POLL_SECONDS = 1.0


def trace(
    ident: Annotated[str, typer.Argument(metavar="ID", help="Attribute id of the event.")],
    *,
    source: Annotated[str | None, typer.Option("--source", help="Its source, if several events have this id.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep printing new attempts; Ctrl-C ends it.")] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """Show what happened to an event: its arrival, each delivery attempt with its response, and the replies to it."""
    from penstock.cli.terminal import problems
    from penstock.runtime.errors import UserError

    with problems(), open_history(data_dir) as history:
        shown: list[str] = []
        while True:
            found = history.trace(ident, source)
            lines = (
                [json.dumps(to_data(one), ensure_ascii=False) for one in found]
                if as_json
                else list(lines_of_traces(found))
            )
            for line in new_lines(shown, lines):
                say(line)
            shown = lines
            if not watch:
                break
            try:
                time.sleep(POLL_SECONDS)
            except KeyboardInterrupt:
                raise typer.Exit(0) from None
            history.moved_on()
        if not found:
            raise UserError(f"Event {ident} was not found.", "penstock events lists the events of the last hour.")


def new_lines(before: list[str], now: list[str]) -> list[str]:
    """The lines that have not been printed yet."""
    known = set(before)
    return [line for line in now if line not in known]


def lines_of_traces(found: list[Traced]) -> Iterator[str]:
    """The trace of each event, line by line."""
    for number, traced in enumerate(found):
        if number:
            yield ""
        yield from _trace_lines(traced, "", datetime.now(UTC))


def _trace_lines(traced: Traced, indent: str, now: datetime) -> Iterator[str]:
    event = traced.event
    yield f"{indent}{clock(event.arrival)} UTC  {event.type}  {event.id}  from {event.source}"
    yield f"{indent}  stored in partition {event.partition} at offset {event.offset}"
    if not traced.attempts:
        yield f"{indent}  no attempts yet: no route matches, or delivery has not started"
    for attempt in traced.attempts:
        yield f"{indent}  {_line(attempt, traced, now)}"
    for child in traced.children:
        yield f"{indent}  reply"
        yield from _trace_lines(child, indent + "    ", now)


def _line(attempt: Attempt, traced: Traced, now: datetime) -> str:
    after = (attempt.start - traced.event.arrival).total_seconds()
    stage = "" if attempt.stage == "subscriber" else f" {STAGES.get(attempt.stage, attempt.stage)}"
    result = result_text(attempt, f"{attempt.duration * 1000:.1f} ms")
    due = ""
    if attempt.due is not None:
        due = f", next at {clock(attempt.due)}" + (
            " (waiting)" if _waits(attempt, traced) and attempt.due > now else ""
        )
    to = f"{route_text(attempt)}{stage} #{attempt.attempt} -> {attempt.destination}"
    return f"+{after * 1000:.1f} ms  {to}  {result}{due}"


def _waits(attempt: Attempt, traced: Traced) -> bool:
    """Whether it is the latest attempt of its route."""
    return attempt is [one for one in traced.attempts if one.route == attempt.route][-1]


STAGES = {"reply": "reply", "deadletter": "dead letter sink"}


def to_data(traced: Traced) -> dict[str, Any]:
    """A trace for programs."""
    attempts = [
        {
            name: clock(value, full=True) if isinstance(value, datetime) else value
            for name, value in dataclasses.asdict(attempt).items()
        }
        for attempt in traced.attempts
    ]
    return {"event": as_data(traced.event), "attempts": attempts, "children": [to_data(one) for one in traced.children]}
