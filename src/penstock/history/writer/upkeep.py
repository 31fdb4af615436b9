"""Which days are removed and which are compacted, as values; and doing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from penstock.history.schema.columns import TableName
from penstock.history.writer.stored_table import StoredTable

MIB = 2**20
SMALL_BYTES = 16 * MIB
MANY_SMALL = 16
"""Small files of one day from which on they are put together."""
VACUUM_HOURS = 2
"""How long a file stays that no version names any more: a question may still be reading it."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table."""

    table: TableName
    day: date
    bytes: int


@dataclass(frozen=True)
class Upkeep:
    """What is to be done."""

    remove_before: date | None
    """Days before this one are removed from both tables."""
    compact: tuple[tuple[TableName, date], ...]


def plan(files: Iterable[DataFile], today: date, days: int, mib: int) -> Upkeep:
    """Removes what is too old, then the oldest days until the rest fits; the present day stays in any case."""
    every = list(files)
    first = today - timedelta(days=days - 1)
    by_day: dict[date, int] = {}
    for file in every:
        by_day[file.day] = by_day.get(file.day, 0) + file.bytes
    room = mib * MIB
    for day in sorted(by_day, reverse=True):
        room -= by_day[day]
        if room < 0 and day < today:
            first = max(first, day + timedelta(days=1))
            break
    small: dict[tuple[TableName, date], int] = {}
    for file in every:
        if file.bytes < SMALL_BYTES and file.day >= first:
            small[file.table, file.day] = small.get((file.table, file.day), 0) + 1
    removes = any(day < first for day in by_day)
    return Upkeep(first if removes else None, tuple(sorted(key for key, count in small.items() if count >= MANY_SMALL)))


def carry_out(stored: Mapping[TableName, StoredTable], upkeep: Upkeep) -> None:
    """Removes and compacts; the files themselves go with the next `vacuum`."""
    if upkeep.remove_before is not None:
        for table in stored.values():
            table.remove_before(upkeep.remove_before)
    for name, day in upkeep.compact:
        stored[name].compact(day)
