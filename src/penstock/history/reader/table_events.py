"""Events by their place in the log, from the table alone: for readers of what Kafka no longer has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.contract import records
from penstock.events import kafka_binding as kafka
from penstock.history.reader.database import Database, as_dict
from penstock.history.reader.tables import read_table
from penstock.history.schema.columns import ATTEMPTS, EVENTS, Table
from penstock.history.schema.rows import STORED_AS
from penstock.kafka.ranges import LogRecord
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FRESH_SECONDS = 30.0
"""How long a version of the tables is good enough: what is new in them is what Kafka still has."""


class FirstKept(NamedTuple):
    """Where a partition of the table begins."""

    since: int
    """Offset of the first event that came at the time asked for, or later."""
    first: int
    """Offset of the first event at all."""


class Stretch(NamedTuple):
    """Offsets of a partition, from `first` up to, not including, `end`, of which the table has every event."""

    first: int
    end: int


@dataclass(frozen=True)
class GivenUpBy:
    """Events of a partition that a route gave up, by when and why."""

    route: str
    since: float = 0.0
    until: float | None = None
    reason: str = ""


class KeptEvents:
    """The tables as they were a moment ago. Blocks; used by one thread only. Every call raises HistoryProblem."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._databases: dict[str, tuple[float, Database | None]] = {}
        self._firsts: dict[int, FirstKept] | None = None
        self._stretches: dict[int, list[Stretch]] | None = None
        self._positions: dict[int, int] = {}
        """First offset of each partition that is not in the table of events, where the table says so."""
        self._gaps: dict[int, tuple[int, ...]] = {}
        """Where something is missing in it."""

    def close(self) -> None:
        """Gives everything back."""
        for _, database in self._databases.values():
            if database is not None:
                database.close()
        self._databases = {}

    def firsts(self, since: float = 0.0) -> dict[int, FirstKept]:
        """Where each partition begins; nothing for a partition in which nothing came since then."""
        self._database(EVENTS)
        if not since and self._firsts is not None:
            return self._firsts
        moment = _moment(since)
        rows = self._ask(
            EVENTS,
            'select partition, min("offset") filter (where day >= ? and arrival >= ?) as since, '
            'min("offset") as first from events group by partition',
            [moment.date(), moment],
        )
        found = {row["partition"]: FirstKept(row["since"], row["first"]) for row in rows if row["since"] is not None}
        self._firsts = self._firsts if since else found
        return found

    def stretch(self, partition: int, offset: int, *, newest: bool = False) -> Stretch | None:
        """The first offsets from this one on of which the table has every event; with `newest`, as it is now."""
        self._database(EVENTS, -1.0 if newest else FRESH_SECONDS)
        return next(iter(self._whole(partition, offset)), None)

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        """By partition, the offsets of which the table has every event, of those that came since then."""
        return {partition: self._whole(partition, kept.since) for partition, kept in self.firsts(since).items()}

    def _whole(self, partition: int, offset: int) -> tuple[Stretch, ...]:
        """What the table has all of from this offset on."""
        if self._stretches is None:
            rows = self._ask(
                EVENTS, 'select partition, min("offset") as first, max("offset") as last from events group by partition'
            )
            self._stretches = {row["partition"]: self._without_gaps(**row) for row in rows}
        stretches = self._stretches.get(partition, ())
        return tuple(Stretch(max(offset, one.first), one.end) for one in stretches if one.end > offset)

    def _without_gaps(self, partition: int, first: int, last: int) -> list[Stretch]:
        stretches, end = [], self._positions.get(partition, last + 1)
        for gap in self._gaps.get(partition, ()):
            if first <= gap < end:
                stretches.append(Stretch(first, gap))
                statement = 'select min("offset") as next from events where partition = ? and "offset" >= ?'
                [row] = self._ask(EVENTS, statement, [partition, gap])
                first = end if row["next"] is None else row["next"]
        return [one for one in (*stretches, Stretch(first, end)) if one.first < one.end]

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        """The events from `begin` to `end`, exclusive, as the records that they were."""
        rows = self._ask(
            EVENTS,
            'select * from events where partition = ? and "offset" >= ? and "offset" < ? order by "offset"',
            [partition, begin, end],
        )
        return [record_of(row) for row in rows]

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        """Offsets of events that a route gave up."""
        since = _moment(wanted.since)
        until = datetime.max.replace(tzinfo=UTC) if wanted.until is None else _moment(wanted.until)
        rows = self._ask(
            ATTEMPTS,
            'select distinct "offset" from attempts where day >= ? and start >= ? and start < ? and partition = ? '
            "and route = ? and result in ('deadletter', 'dropped') and contains(lower(coalesce(reason, '')), lower(?))",
            [since.date(), since, until, partition, wanted.route, wanted.reason],
        )
        return sorted(row["offset"] for row in rows)

    def _ask(self, table: Table, statement: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        database = self._database(table)
        return [] if database is None else database.ask(statement, parameters)

    def _database(self, table: Table, fresh_seconds: float = FRESH_SECONDS) -> Database | None:
        opened, database = self._databases.pop(table.name, (None, None))
        if opened is None or self._clock() - opened > fresh_seconds:
            if database is not None:
                database.close()
            database, self._firsts, self._stretches = self._open(table), None, None
            opened = self._clock()
        self._databases[table.name] = (opened, database)
        return database

    def _open(self, table: Table) -> Database | None:
        """None where nothing has been written yet."""
        files = read_table(self._settings, table, self._settings.partitions)
        if table is EVENTS:
            self._positions, self._gaps = ({}, {}) if files is None else (files.positions, files.gaps)
        if files is None:
            return None
        from penstock.history.schema.arrow import schema_of

        database = Database(guest=True)
        database.add(table, files, schema_of(table).empty_table())
        database.lock()
        return database


def record_of(row: dict[str, Any]) -> LogRecord:
    """The record that a row of `events` was made of, with its headers in the order in which penstock writes them."""
    named = {header: row[name] for name, header in STORED_AS.items()}
    named |= {kafka.CONTENT_TYPE: row["datacontenttype"]}
    named |= {kafka.PREFIX + name: value for name, value in as_dict(row["extensions"]).items()}
    named |= {records.TARGET: row["target"], records.TRACE: row["traceparent"]}
    pairs = [(name, value.encode()) for name, value in named.items() if value is not None]
    pairs += [(other["key"], other["value"]) for other in row["headers"] or ()]
    arrived = round(row["arrival"].timestamp() * 1000)
    return LogRecord(row["partition"], row["offset"], arrived, row["key"], pairs, row["data"])


def _moment(unix: float) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
