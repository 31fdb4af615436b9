"""One function for each question about the past. The commands use these, and so may any program.

    with History(settings) as history:
        for event in history.events(EventFilter(since=..., type="order")):
            print(event.id, history.trace(event.id))

Each `History` is of one moment: what the tables have, and what Kafka has beyond them. `moved_on` brings it up to now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from penstock.history.reader import questions
from penstock.history.reader.answers import (
    Attempt,
    DeadLetter,
    DeadLetterCount,
    Event,
    TableState,
    Traced,
)
from penstock.history.reader.database import Database, as_dict
from penstock.history.reader.questions import DeadLetterFilter, EventFilter
from penstock.history.reader.snapshot import Moment, RecordReader
from penstock.history.schema.columns import ATTEMPTS, EVENTS, TABLES, Table, TableName
from penstock.kafka.ranges import RangeReader

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.settings import Settings

DEPTH = 8
"""Replies to replies that a trace follows."""

LAST_RECORDS = 600
"""Records of each partition that are looked at first for what came last."""
DISORDER = timedelta(seconds=0.2)
"""By so much the order of arrivals in a partition may differ from that of its records: several ingresses write it."""


class History:
    """The tables and the rest of Kafka. Used by one thread only, but for `progress` and `interrupt`."""

    def __init__(
        self, settings: Settings, connect: Callable[[Settings], RecordReader] = RangeReader, most: int | None = None
    ) -> None:
        """Reads at most so many records of each topic, the newest, where the tables do not have them."""
        self._moment = Moment(settings, connect, most)
        self._databases: dict[frozenset[TableName], Database] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives everything back."""
        self._forget()
        self._moment.close()

    @property
    def without_kafka(self) -> str | None:
        """Why the answers do not reach beyond the tables; None where they do."""
        return self._moment.away

    @property
    def unread(self) -> int:
        """Events and attempts of Kafka that the answers did not look at, because there were too many."""
        return sum(self._moment.unread.values())

    def moved_on(self) -> None:
        """Brings the next answers up to now. What was read of Kafka before is kept."""
        self._forget()
        self._moment.move_on()

    def prepare(self, statement: str) -> None:
        """Reads what a statement asks about; without it, `sql` does so itself."""
        self._of(_named_in(statement))

    def sql(self, statement: str) -> pa.Table:
        """The answer to a statement over the views `events` and `attempts`. Raises HistoryProblem."""
        return self._of(_named_in(statement)).run(statement)

    def events(self, wanted: EventFilter) -> list[Event]:
        """The events of a filter. Raises HistoryProblem where its `where` is wrong."""
        if wanted.asks_for_last and frozenset({EVENTS.name}) not in self._databases:
            found = self._last_events(wanted)
            if found is not None:
                return found
        return _events_of(self._of((EVENTS,)), wanted)

    def _last_events(self, wanted: EventFilter) -> list[Event] | None:
        """The answer where what came last is enough for it, which is looked at first: to read the rest of Kafka costs
        time, and takes it from deliveries. None where it is not enough."""
        last = self._moment.last(EVENTS, LAST_RECORDS)
        if last is None or last.all_since is None:
            return None
        database = Database()
        try:
            database.add(EVENTS, None, last.rows)
            database.lock()
            found = _events_of(database, wanted)
        finally:
            database.close()
        is_all = len(found) == wanted.limit and found[-1].arrival - DISORDER >= last.all_since
        return found if is_all else None

    def trace(self, ident: str, source: str | None = None) -> list[Traced]:
        """What happened to each event with this id, from its arrival on, and to the events that were made of it."""
        found = self.events(EventFilter(id=ident, source=source, newest_first=False))
        seen = {_place(event) for event in found}
        return [self._traced(event, seen, DEPTH) for event in found]

    def event_at(self, partition: int, offset: int) -> Event | None:
        """The event at a place of the log; None where nothing is known of it."""
        rows = self._of((EVENTS,)).ask(*questions.event_at(partition, offset))
        return _event(rows[0]) if rows else None

    def trace_of(self, event: Event) -> Traced:
        """What happened to this one event, and to the events that were made of it."""
        return self._traced(event, {_place(event)}, DEPTH)

    def parents(self, event: Event) -> list[Event]:
        """Events of the same trace that came before it, the newest first: what it was made of is among them."""
        question = questions.parents(event)
        return [] if question is None else [_event(row) for row in self._of((EVENTS,)).ask(*question)]

    def attempts(self, event: Event) -> list[Attempt]:
        """The attempts of an event, in the order of time."""
        return [Attempt(**row) for row in self._of((ATTEMPTS,)).ask(*questions.attempts(event))]

    def deadletters(self, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """What was given up, the newest first."""
        return [DeadLetter(**row) for row in self._of((ATTEMPTS,)).ask(*questions.deadletters(wanted))]

    def deadletter_counts(self, wanted: DeadLetterFilter) -> list[DeadLetterCount]:
        """How much was given up, by route, reason and outcome, the most first."""
        return [DeadLetterCount(**row) for row in self._of((ATTEMPTS,)).ask(*questions.deadletter_counts(wanted))]

    def state(self) -> list[TableState]:
        """How far the tables have got."""
        return [self._moment.state(table) for table in TABLES]

    def progress(self) -> float:
        """How much of the running statement is done, in percent; below zero where that is not known."""
        return max((database.progress() for database in list(self._databases.values())), default=-1.0)

    def interrupt(self) -> None:
        """Ends the running statement."""
        for database in list(self._databases.values()):
            database.interrupt()

    def _traced(self, event: Event, seen: set[tuple[int, int]], depth: int) -> Traced:
        attempts = self.attempts(event)
        question = questions.children(event, attempts) if depth else None
        rows = [] if question is None else self._of((EVENTS,)).ask(*question)
        made = [child for row in rows if _place(child := _event(row)) not in seen]
        seen.update(map(_place, made))
        return Traced(event, tuple(attempts), tuple(self._traced(child, seen, depth - 1) for child in made))

    def _of(self, tables: Iterable[Table]) -> Database:
        """The database with these views, made when it is first asked for: to read the rest of Kafka costs time."""
        wanted = sorted(tables, key=lambda table: table.name)
        key = frozenset(table.name for table in wanted)
        if key not in self._databases:
            database = Database()
            for table in wanted:
                database.add(table, self._moment.files(table), self._moment.rest(table))
            database.lock()
            self._databases[key] = database
        return self._databases[key]

    def _forget(self) -> None:
        for database in self._databases.values():
            database.close()
        self._databases = {}


def _named_in(statement: str) -> list[Table]:
    return [table for table in TABLES if table.name in statement.lower()]


def _events_of(database: Database, wanted: EventFilter) -> list[Event]:
    statement, values = questions.events(wanted)
    return [_event(row) for row in database.run(statement, values).to_pylist()]


def _event(row: dict[str, Any]) -> Event:
    return Event(**{**row, "extensions": as_dict(row["extensions"])})


def _place(event: Event) -> tuple[int, int]:
    return event.partition, event.offset
