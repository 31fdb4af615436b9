"""Dead letters: which of them are asked for, and how they are shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.cli.output import lines_of
from penstock.operations.formatting import count
from penstock.operations.replays import ReplaySubject
from penstock.operations.times import window
from penstock.runtime.times import rfc3339

if TYPE_CHECKING:
    from penstock.history.reader.questions import DeadLetterFilter


def wanted_of(
    place: str | None,
    namespace: str | None,
    since: str | None,
    until: str | None,
    *,
    reason: str | None,
    limit: int,
    now: datetime,
) -> DeadLetterFilter:
    """What the flags ask for. Raises UserError."""
    from penstock.history.reader.questions import DeadLetterFilter, NamedRoute

    route = NamedRoute(namespace=namespace)
    if place is not None:
        named = ReplaySubject.read(place)
        route = NamedRoute(named.kind, namespace or "default", named.name)
    return DeadLetterFilter(*window(since, until, now=now), route, reason, limit=limit)


def as_data(found: Any) -> dict[str, Any]:
    """An answer for programs."""
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in asdict(found).items()}


def counts_table(found: Iterable[Any]) -> list[str]:
    """How much was given up, by route and reason. The reason, which may be long, has a line of its own."""
    given_up = list(found)
    rows = [(count(one.count), one.outcome, _moment(one.first), _moment(one.last), _route(one)) for one in given_up]
    heading, *lines = lines_of(("EVENTS", "OUTCOME", "FIRST (UTC)", "LAST (UTC)", "ROUTE"), rows, numbers=("EVENTS",))
    return [heading, *_with_details(lines, [[one.reason] for one in given_up])]


def each_table(found: Iterable[Any]) -> list[str]:
    """Every event that was given up. What it is and the reason have lines of their own."""
    given_up = list(found)
    rows = [(_moment(one.at), str(one.attempts), one.outcome, _route(one)) for one in given_up]
    heading, *lines = lines_of(("AT (UTC)", "TRIED", "OUTCOME", "ROUTE"), rows, numbers=("TRIED",))
    return [heading, *_with_details(lines, [[f"{one.type}  {one.id}", one.reason] for one in given_up])]


def _with_details(lines: list[str], details: list[list[str | None]]) -> list[str]:
    below = [[f"    {text}" for text in texts if text] for texts in details]
    return [text for line, texts in zip(lines, below, strict=True) for text in (line, *texts)]


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%m-%d %H:%M}"


def _route(one: Any) -> str:
    """By name, where the record has it; older ones have the uid alone."""
    if not one.name:
        return str(one.route)
    return f"{one.kind.lower()}/{one.name}" + ("" if one.namespace == "default" else f" ({one.namespace})")
