"""`penstock deadletters`: the events that could not be delivered, counted by route and reason or each in a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import (
    DataDirOption,
    JsonOption,
    KubeconfigOption,
    NamespaceOption,
    SinceOption,
    UntilOption,
)
from penstock.cli.output import lines_of, say
from penstock.operations.formatting import count
from penstock.operations.replays import ReplaySubject
from penstock.operations.times import window
from penstock.runtime.errors import UserError
from penstock.runtime.times import rfc3339

if TYPE_CHECKING:
    from penstock.history.reader.questions import DeadLetterFilter


def deadletters(
    route: Annotated[
        str | None,
        typer.Argument(metavar="[KIND/NAME]", help="Only this route, such as trigger/orders. (default: all)"),
    ] = None,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only with a reason that contains this.")] = None,
    each: Annotated[bool, typer.Option("--each", help="List every event, the newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of events to list.")] = 100,
    namespace: NamespaceOption = None,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the events that could not be delivered, by route and reason: dropped, or sent to a dead letter sink."""
    import json

    from penstock.cli.terminal import console, problems
    from penstock.history.reader.history import History
    from penstock.history.schema.columns import HistoryProblem
    from penstock.operations.installation import find

    with problems():
        wanted = filter_of(route, namespace, since, until, reason=reason, limit=limit, now=datetime.now(UTC))
        settings = find(data_dir, kubeconfig).kafka_settings("penstock deadletters")
        try:
            with History(settings) as history:
                found = history.deadletters(wanted) if each else history.deadletter_counts(wanted)
                unreachable = history.without_kafka
        except HistoryProblem as problem:
            raise UserError(str(problem)) from problem
        if as_json:
            say(json.dumps([as_data(one) for one in found], indent=2))
        elif found:
            for line in each_table(found) if each else counts_table(found):
                console().print(line, markup=False)
        else:
            console().print("no dead letters")
        if unreachable:
            raise UserError(f"Kafka is unreachable, so the newest dead letters may be missing: {unreachable}.")


def filter_of(
    route: str | None,
    namespace: str | None,
    since: str | None,
    until: str | None,
    *,
    reason: str | None,
    limit: int,
    now: datetime,
) -> DeadLetterFilter:
    """The filter that the flags describe. Raises UserError."""
    from penstock.history.reader.questions import DeadLetterFilter, NamedRoute

    selected = NamedRoute(namespace=namespace)
    if route is not None:
        named = ReplaySubject.read(route)
        selected = NamedRoute(named.kind, namespace or "default", named.name)
    return DeadLetterFilter(*window(since, until, now=now), selected, reason, limit=limit)


def as_data(found: Any) -> dict[str, Any]:
    """A row for JSON."""
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in asdict(found).items()}


def counts_table(found: Iterable[Any]) -> list[str]:
    """Dead letters counted by route and reason. The reason, which may be long, has a line of its own."""
    counted = list(found)
    rows = [(count(one.count), one.outcome, _minute(one.first), _minute(one.last), _route(one)) for one in counted]
    heading, *lines = lines_of(("EVENTS", "OUTCOME", "FIRST (UTC)", "LAST (UTC)", "ROUTE"), rows, numbers=("EVENTS",))
    return [heading, *_with_details(lines, [[one.reason] for one in counted])]


def each_table(found: Iterable[Any]) -> list[str]:
    """Every dead letter. Type, id and reason have lines of their own."""
    letters = list(found)
    rows = [(_minute(one.at), str(one.attempts), one.outcome, _route(one)) for one in letters]
    heading, *lines = lines_of(("AT (UTC)", "TRIED", "OUTCOME", "ROUTE"), rows, numbers=("TRIED",))
    return [heading, *_with_details(lines, [[f"{one.type}  {one.id}", one.reason] for one in letters])]


def _with_details(lines: list[str], details: list[list[str | None]]) -> list[str]:
    below = [[f"    {text}" for text in texts if text] for texts in details]
    return [text for line, texts in zip(lines, below, strict=True) for text in (line, *texts)]


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%m-%d %H:%M}"


def _route(one: Any) -> str:
    """The route by name; older records have only its uid."""
    if not one.name:
        return str(one.route)
    return f"{one.kind.lower()}/{one.name}" + ("" if one.namespace == "default" else f" ({one.namespace})")
