"""`penstock events`: lists accepted events by time, type, source or any condition."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.history import note, open_history
from penstock.cli.options import DataDirOption, JsonOption, SinceOption, UntilOption
from penstock.cli.output import say

if TYPE_CHECKING:
    from penstock.history.reader.answers import Event


def events(
    *,
    since: SinceOption = "1h",
    until: UntilOption = None,
    kind: Annotated[str | None, typer.Option("--type", help="Attribute type.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Attribute source.")] = None,
    ident: Annotated[str | None, typer.Option("--id", help="Attribute id.")] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="Condition in SQL: \"extensions['region'] = 'eu'\".")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of events, the newest first.")
    ] = 50,
    data: Annotated[bool, typer.Option("--data", help="Show the data as well.")] = False,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
) -> None:
    """List accepted events, the newest first; penstock trace ID shows what happened to one."""
    from penstock.cli.terminal import problems
    from penstock.history.reader.questions import EventFilter
    from penstock.operations.times import window

    with problems():
        begin, end = window(since, until)
        wanted = EventFilter(begin, end, kind, source, ident, where=where, limit=limit)
        with open_history(data_dir) as history:
            found = history.events(wanted)
        if as_json:
            for event in found:
                say(json.dumps(as_data(event), ensure_ascii=False))
            return
        _print(found, data)
        if len(found) == limit:
            note(f"only the newest {limit}; --limit shows more")


def as_data(event: Event) -> dict[str, object]:
    """An event for JSON: its attributes and data, and where it is stored."""
    attributes = {name: getattr(event, name) for name in ("id", "source", "type", "specversion", "subject", "time")}
    attributes |= {"dataschema": event.dataschema, "datacontenttype": event.datacontenttype, **event.extensions}
    stored = {"partition": event.partition, "offset": event.offset, "arrival": clock(event.arrival, full=True)}
    return {
        **stored,
        "target": event.target,
        "attributes": {name: value for name, value in attributes.items() if value is not None},
        "data": text_of(event.data),
    }


def text_of(data: bytes | None) -> str | None:
    """The data as text."""
    return None if data is None else data.decode("utf-8", "replace")


def clock(moment: datetime, full: bool = False) -> str:
    """A time with milliseconds; `full` is RFC 3339."""
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f"{text}Z" if full else text.replace("T", " ")


def _print(found: list[Event], data: bool) -> None:
    from penstock.cli.output import lines_of

    rows = [[clock(event.arrival), event.type, event.source, event.id, event.subject or ""] for event in found]
    headings = ["arrival (UTC)", "type", "source", "id", "subject"]
    if data:
        headings.append("data")
        for row, event in zip(rows, found, strict=True):
            row.append((text_of(event.data) or "").replace("\n", " "))
    for line in lines_of(headings, rows):
        say(line)
