"""The SQL behind `events`, `trace` and `deadletters`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.history.reader.answers import Attempt, Event

Question = tuple[str, list[Any]]
"""A statement and its parameters."""

SLACK = timedelta(seconds=60)
"""How much later than the attempt that made it an event may arrive: clocks differ, and a service may answer first."""


LOOK_BACK = timedelta(days=1)
"""How much earlier than an event another of its trace may have come, to be looked for."""


class Position(NamedTuple):
    """Where an event stands among those that came."""

    arrival: datetime
    partition: int
    offset: int


@dataclass(frozen=True)
class EventFilter:
    """Which events are asked for. `where` is SQL over the columns of `events`."""

    since: datetime | None = None
    until: datetime | None = None
    type: str | None = None
    source: str | None = None
    id: str | None = None
    target: str | None = None
    where: str | None = None
    limit: int = 100
    newest_first: bool = True
    older_than: Position | None = None
    """Where the page before ended, the newest first."""

    @property
    def asks_for_last(self) -> bool:
        """Whether it asks for a few of what came last, so that the newest records may be enough to answer."""
        return self.newest_first and self.until is None and self.older_than is None and self.id is None


@dataclass(frozen=True)
class NamedRoute:
    """A Trigger or Subscription by name; what is None does not matter."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


@dataclass(frozen=True)
class DeadLetterFilter:
    """What was given up: when, for which route, for a reason that contains this text."""

    since: datetime | None = None
    until: datetime | None = None
    route: NamedRoute = NamedRoute()
    reason: str | None = None
    outcome: str | None = None
    limit: int = 1000


def events(wanted: EventFilter) -> Question:
    """The events of a filter."""
    conditions, values = _between("arrival", wanted.since, wanted.until)
    for column in ("type", "source", "id", "target"):
        if (value := getattr(wanted, column)) is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if wanted.where:
        # On a line of its own, so that a comment at its end hides nothing.
        conditions.append(f"(\n{wanted.where}\n)")
    if (last := wanted.older_than) is not None:
        conditions += ["arrival <= ?", "day <= ?", '(arrival < ? or partition > ? or (partition = ? and "offset" < ?))']
        values += [last.arrival, last.arrival.date(), last.arrival, last.partition, last.partition, last.offset]
    order = "desc" if wanted.newest_first else "asc"
    statement = f"select {columns_of(Event)} from events{_where(conditions)}"
    return f'{statement} order by arrival {order}, partition, "offset" {order} limit {wanted.limit:d}', values


def children(of: Event, attempts: Sequence[Attempt]) -> Question | None:
    """Events of the same trace that arrived while the event was delivered; None where none can have."""
    taken = [attempt for attempt in attempts if attempt.succeeded]
    if of.trace is None or not taken:
        return None
    begin, end = min(one.start for one in taken) - SLACK, max(one.end for one in taken) + SLACK
    conditions, values = _between("arrival", max(begin, of.arrival), end)
    conditions += ["substr(traceparent, 4, 32) = ?", "traceparent <> ?", 'not (partition = ? and "offset" = ?)']
    values += [of.trace, of.traceparent, of.partition, of.offset]
    statement = f"select {columns_of(Event)} from events{_where(conditions)}"
    return f"{statement} order by arrival limit 1000", values


def parents(of: Event) -> Question | None:
    """Events of the same trace that arrived before it, the newest first; None where it has no trace."""
    if of.trace is None:
        return None
    conditions, values = _between("arrival", of.arrival - LOOK_BACK, of.arrival + timedelta(milliseconds=1))
    conditions += ["substr(traceparent, 4, 32) = ?", 'not (partition = ? and "offset" = ?)']
    values += [of.trace, of.partition, of.offset]
    return f"select {columns_of(Event)} from events{_where(conditions)} order by arrival desc limit 100", values


def event_at(partition: int, offset: int) -> Question:
    """The event at a place of the log."""
    return f'select {columns_of(Event)} from events where partition = ? and "offset" = ?', [partition, offset]


def attempts(of: Event) -> Question:
    """The attempts of an event, in the order of time."""
    conditions = ["day >= ?", "partition = ?", '"offset" = ?']
    values = [(of.arrival - SLACK).date(), of.partition, of.offset]
    return f"select {columns_of(Attempt)} from attempts{_where(conditions)} order by start, record", values


def deadletters(wanted: DeadLetterFilter) -> Question:
    """What was given up, the newest first."""
    given_up, values = _given_up(wanted)
    return f'{given_up} select * from found order by "at" desc limit {wanted.limit:d}', values


def deadletter_counts(wanted: DeadLetterFilter) -> Question:
    """How much was given up, by route and reason, the most first."""
    given_up, values = _given_up(wanted)
    return (
        f"{given_up} select route, any_value(kind) as kind, any_value(namespace) as namespace, "
        'any_value(name) as name, reason, outcome, count(*) as count, min("at") as first, max("at") as last from found '
        "group by route, reason, outcome order by count desc, last desc",
        values,
    )


def _given_up(wanted: DeadLetterFilter) -> Question:
    """The last attempt at a subscriber or a reply, and beside it what the dead letter sink said."""
    conditions, values = _between("start", wanted.since, wanted.until)
    conditions += ["stage <> 'deadletter'", "result in ('deadletter', 'dropped')"]
    for column in ("kind", "namespace", "name"):
        if (value := getattr(wanted.route, column)) is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if wanted.route.uid is not None:
        conditions.append("route = ?")
        values.append(wanted.route.uid)
    if wanted.reason is not None:
        conditions.append("contains(lower(reason), lower(?))")
        values.append(wanted.reason)
    outcome = ""
    if wanted.outcome is not None:
        outcome = " where outcome = ?"
        values.append(wanted.outcome)
    key = 'route, partition, "offset"'
    last = f"select {key}, max_by(result, record) as result from attempts where stage = 'deadletter' group by all"
    return (
        f"with given_up as (select * from attempts{_where(conditions)}), sink as ({last}), found as (select * from ("
        'select g.partition, g."offset", g.id, g.source, g.type, g.route, g.kind, g.namespace, g.name, '
        'g.start as "at", '
        "g.attempt as attempts, g.destination, g.status, g.reason, "
        "case when g.result = 'dropped' or s.result = 'dropped' then 'dropped' "
        "when s.result = 'delivered' then 'dead-lettered' else 'waiting' end as outcome "
        "from given_up g left join sink s on g.route = s.route and g.partition = s.partition "
        'and g."offset" = s."offset"'
        f"){outcome})",
        values,
    )


def columns_of(answer: type[Event] | type[Attempt]) -> str:
    """The columns that an answer is made of."""
    return ", ".join(f'"{one.name}"' for one in fields(answer))


def _between(column: str, since: datetime | None, until: datetime | None) -> tuple[list[str], list[Any]]:
    """The day is named as well: files of other days are then not even opened."""
    conditions: list[str] = []
    values: list[Any] = []
    if since is not None:
        conditions += [f"{column} >= ?", "day >= ?"]
        values += [since, since.date()]
    if until is not None:
        conditions += [f"{column} < ?", "day <= ?"]
        values += [until, until.date()]
    return conditions, values


def _where(conditions: Sequence[str]) -> str:
    return f" where {' and '.join(conditions)}" if conditions else ""
