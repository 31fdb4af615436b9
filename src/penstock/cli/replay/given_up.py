"""What was given up: which of it is asked for, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.cli.replay.request import Place, moment
from penstock.cli.tables import lines_of
from penstock.engine.problem import Problem
from penstock.resources.moments import EXPECTED, moment_of
from penstock.timestamps import rfc3339

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
    now: float,
) -> DeadLetterFilter:
    """What the flags ask for. Raises Problem."""
    from penstock.history.reader.questions import DeadLetterFilter, RouteName

    route = RouteName(namespace=namespace)
    if place is not None:
        named = Place.read(place)
        route = RouteName(named.kind, namespace or "default", named.name)
    return DeadLetterFilter(_time(since, now), _time(until, now), route, reason, limit=limit)


def _time(text: str | None, now: float) -> datetime | None:
    if text is None:
        return None
    found = moment_of(moment(text), now)
    if found is None:
        raise Problem(f"{text} is no time.", f"{EXPECTED}, or 2h.", exit_code=2)
    return datetime.fromtimestamp(found, UTC)


def as_data(found: Any) -> dict[str, Any]:
    """An answer for programs."""
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in asdict(found).items()}


def counts_table(found: Iterable[Any]) -> list[str]:
    """How much was given up, by route and reason."""
    rows = [
        (_route(one), str(one.count), one.outcome, rfc3339(one.first), rfc3339(one.last), one.reason or "")
        for one in found
    ]
    return lines_of(("ROUTE", "EVENTS", "OUTCOME", "FIRST", "LAST", "REASON"), rows, numbers=("EVENTS",))


def each_table(found: Iterable[Any]) -> list[str]:
    """Every event that was given up."""
    rows = [
        (rfc3339(one.at), _route(one), one.type, one.id, str(one.attempts), one.outcome, one.reason or "")
        for one in found
    ]
    return lines_of(("AT", "ROUTE", "TYPE", "ID", "ATTEMPTS", "OUTCOME", "REASON"), rows, numbers=("ATTEMPTS",))


def _route(one: Any) -> str:
    """By name, where the record has it; older ones have the uid alone."""
    return f"{one.kind.lower()} {one.namespace}/{one.name}" if one.name else str(one.route)
