"""The fate of every event that a route should get, counted in a database on disk, so that memory stays small.

| fate | |
|---|---|
| `delivered` | the subscriber accepted it, and the reply, if delivered separately, was accepted too |
| `dead-lettered` | all attempts failed, and the dead letter sink accepted it |
| `dropped` | all attempts failed, without a dead letter sink that accepted it |
| `redriven` | dead-lettered or dropped, and delivered later by a Replay |
| `retrying` | attempts failed, and the next one is due |
| `waiting` | no attempt yet: the route is paused, busy, behind, or the event is still on its way |
| `expired` | removed by retention before the route got it, and reported as that |
| `lost` | none of these |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from penstock.dispatcher.cursors import cursor_store
from penstock.dispatcher.cursors.cursor_store import Restored, decode_partition
from penstock.history.reader.database import Database
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import Retained
from penstock.verification.matching import Due
from penstock.verification.routes import Reported

Fate = Literal["delivered", "retrying", "waiting", "dead-lettered", "dropped", "redriven", "expired", "lost"]
FATES: tuple[Fate, ...] = get_args(Fate)
MISSING: tuple[Fate, ...] = ("lost", "expired")


class Try(NamedTuple):
    """An attempt, as far as it matters here."""

    route: int
    partition: int
    offset: int
    stage: str
    result: str
    redrive: bool
    """Whether it is of a Replay of the route's dead letters."""


class CursorRow(NamedTuple):
    """The cursor of a route in a partition."""

    route: int
    partition: int
    next: int
    """First offset that it has not taken."""
    detached: bool
    """Whether it reads on its own, so that what it has not taken may still come."""
    given_to: int
    """Every event before this offset has been given to it, or will never be, unless it is detached."""


class LostRange(NamedTuple):
    """Offsets that are reported as removed before a route got them."""

    route: int
    partition: int
    first: int
    last: int


class Outstanding(NamedTuple):
    """A delivery that has begun and has not ended."""

    route: int
    partition: int
    offset: int


_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "due": {"route": "integer", "partition": "integer", "offset": "bigint"},
    "tries": {
        "route": "integer",
        "partition": "integer",
        "offset": "bigint",
        "stage": "varchar",
        "result": "varchar",
        "redrive": "boolean",
    },
    "counted": {"uid": "varchar", "number": "integer", "redrive": "boolean"},
    "cursors": {
        "route": "integer",
        "partition": "integer",
        "next": "bigint",
        "detached": "boolean",
        "given_to": "bigint",
    },
    "outstanding": {"route": "integer", "partition": "integer", "offset": "bigint"},
    "ranges": {"route": "integer", "partition": "integer", "first": "bigint", "last": "bigint"},
}

_COPY = """
insert into tries select c.number, a.partition, a."offset", a.stage, a.result, c.redrive
from attempts a join counted c on a.route = c.uid where a.day >= ?
"""

_TRIED = """
create or replace table tried as
select route, partition, "offset",
  bool_or(not redrive and stage <> 'deadletter' and result = 'delivered') as delivered,
  bool_or(not redrive and stage = 'deadletter' and result = 'delivered') as dead_lettered,
  bool_or(not redrive and result = 'dropped') as dropped,
  bool_or(redrive and stage <> 'deadletter' and result = 'delivered') as redriven
from tries semi join due using (route, partition, "offset") group by all
"""

_FATES = """
create or replace table fates as
select d.*, case
  when t.delivered then 'delivered'
  when t.redriven and (t.dead_lettered or t.dropped) then 'redriven'
  when t.dead_lettered then 'dead-lettered'
  when t.dropped then 'dropped'
  when o."offset" is not null then if(t.route is null, 'waiting', 'retrying')
  when exists (select 1 from ranges r where r.route = d.route and r.partition = d.partition
    and d."offset" between r.first and r.last) then 'expired'
  when d."offset" >= coalesce(c.next, 0) and (coalesce(c.detached, false) or d."offset" >= coalesce(c.given_to, 0))
    then 'waiting'
  else 'lost' end as fate
from due d
left join tried t using (route, partition, "offset")
left join outstanding o using (route, partition, "offset")
left join cursors c using (route, partition)
"""


class Fates:
    """The tables by which fates are found."""

    def __init__(self, database: Database) -> None:
        """Makes them in this database, which has a view `attempts` when they are filled."""
        self._database = database
        for table, columns in _COLUMNS.items():
            declared = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            database.do(f"create table {table} ({declared})")

    def add_due(self, found: Collection[Due]) -> None:
        """Events that routes were to get."""
        self._insert("due", found)

    def add_tries(self, found: Collection[Try]) -> None:
        """Attempts."""
        self._insert("tries", found)

    def copy_tries(self, counted: Mapping[str, tuple[int, bool]], since: datetime) -> None:
        """The attempts of the table. By uid of a route: the route that its attempts count for, and whether it redrives
        what that gave up."""
        self._insert("counted", [(uid, number, redrive) for uid, (number, redrive) in counted.items()])
        self._database.do(_COPY, [since.date()])

    def stand(
        self, cursors: Collection[CursorRow], outstanding: Collection[Outstanding], ranges: Collection[LostRange]
    ) -> None:
        """The cursors of routes, their unfinished deliveries, and events reported as removed."""
        self._insert("cursors", cursors)
        self._insert("outstanding", outstanding)
        self._insert("ranges", ranges)

    def judge(self) -> dict[int, dict[Fate, int]]:
        """How many events of each fate, by route."""
        self._database.do(_TRIED)
        self._database.do(_FATES)
        counts: dict[int, dict[Fate, int]] = {}
        for row in self._database.ask("select route, fate, count(*) as count from fates group by all"):
            counts.setdefault(row["route"], {})[row["fate"]] = row["count"]
        return counts

    def missing(self, limit: int) -> list[tuple[int, int, int, Fate]]:
        """Route, partition, offset and fate of events that did not arrive and never will; lost ones first."""
        question = (
            "select * from fates where fate in ('lost', 'expired') "
            f'order by fate desc, partition, "offset", route limit {limit:d}'
        )
        rows = self._database.ask(question)
        return [(row["route"], row["partition"], row["offset"], row["fate"]) for row in rows]

    def _insert(self, table: str, rows: Collection[tuple[object, ...]]) -> None:
        self._database.insert(table, list(_COLUMNS[table]), rows)


class Standing:
    """What the topic holds."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, bytes]] = {}

    def take(self, records: Collection[LogRecord]) -> None:
        """Takes records in the order of each partition."""
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            if cursor_store.parse_payload_key(key) is not None:
                continue  # what a delivery takes along: it may be large, and says nothing here
            kept = self._values.setdefault(record.partition, {})
            if record.value is None:
                kept.pop(key, None)
            else:
                kept[key] = record.value

    def rows(
        self, numbers: Mapping[str, int], reported: Reported, matched: Mapping[int, Retained]
    ) -> tuple[list[CursorRow], list[Outstanding]]:
        """Of each of these routes (uid to number), in each partition. `matched` is what `penstock.matched` held before
        the cursors were read."""
        restored = {
            partition: decode_partition(self._values.get(partition, {}), partition, set()) for partition in matched
        }
        cursors = []
        for partition, found in restored.items():
            passed = _passed(found, matched[partition].end)
            for uid, number in numbers.items():
                cursor, served = found.cursors.get(uid), reported.served_before(uid, partition)
                next_offset, detached = (0, False) if cursor is None else (cursor.next, not cursor.attached)
                cursors.append(CursorRow(number, partition, next_offset, detached, min(passed, served)))
        return cursors, list(_outstanding(numbers, restored))


def _passed(found: Restored, matched_end: int) -> int:
    """Before which offset everything has been given to attached routes that the router found for them.

    A tail that has read everything at its last poll has passed what two generations of the router wrote
    at once, where origins fall back. The event of its last record may have more routes in the next one.
    """
    return 0 if found.tail is None or found.tail.next < matched_end else max(0, found.tail.origin)


def _outstanding(numbers: Mapping[str, int], restored: Mapping[int, Restored]) -> Iterator[Outstanding]:
    for partition, found in restored.items():
        for uid, cursor in found.cursors.items():
            if uid in numbers:
                yield from (Outstanding(numbers[uid], partition, origin) for origin in cursor.outstanding)
