"""Which days are removed and which are compacted, as values; and doing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from penstock.history.reader.tables import file_sizes, location, open_table, storage_options
from penstock.history.schema.columns import TABLES, TableName
from penstock.history.writer.stored_table import StoredTable
from penstock.settings import Settings

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
    newest: datetime | None
    """No row of it is newer; None where the table does not say so, as that of attempts does not."""

    def is_before(self, moment: datetime) -> bool:
        """Whether all of its rows are older."""
        return (self.newest or _midnight(self.day + timedelta(days=1))) < moment


@dataclass(frozen=True)
class TableUpkeep:
    """What is to be done."""

    remove_before: datetime | None
    """What is older is removed from both tables."""
    compact: tuple[tuple[TableName, date], ...]


def plan(files: Iterable[DataFile], today: date, days: int, mib: int) -> TableUpkeep:
    """Removes what is too old, then the oldest days until the rest fits.

    Of the present day the oldest files go, where it alone is too much; what came last stays in any case."""
    newest_first = sorted(files, key=lambda file: (file.day, file.newest or _FAR), reverse=True)
    first = _midnight(today - timedelta(days=days - 1))
    room = mib * MIB
    for number, file in enumerate(newest_first):
        room -= file.bytes
        if room < 0 and file.day < today:
            first = max(first, _midnight(file.day + timedelta(days=1)))
            break
        if room < 0 and number and file.newest is not None:
            first = max(first, file.newest + timedelta(milliseconds=1))
            break
    small: dict[tuple[TableName, date], int] = {}
    for file in newest_first:
        if file.bytes < SMALL_BYTES and not file.is_before(first):
            small[file.table, file.day] = small.get((file.table, file.day), 0) + 1
    removes = any(file.is_before(first) for file in newest_first)
    return TableUpkeep(
        first if removes else None, tuple(sorted(key for key, count in small.items() if count >= MANY_SMALL))
    )


def plan_ahead(files: Iterable[DataFile], now: datetime, within: timedelta, days: int, mib: int) -> TableUpkeep:
    """What will be to do after so much time, if as much is written as since yesterday."""
    files, yesterday = list(files), now.date() - timedelta(days=1)
    written = sum(file.bytes for file in files if file.day >= yesterday)
    growth = written * (within / (now - _midnight(yesterday)))
    return plan(files, (now + within).date(), days, int(mib - growth / MIB))


def removed_soon(settings: Settings, now: datetime, within: timedelta) -> float:
    """Unix time of the oldest event that the tables still have after so much time; 0 where none will be removed.

    Blocks. Raises HistoryProblem."""
    files = []
    for table in TABLES:
        place = location(settings.history_root, table)
        found = open_table(place, storage_options(place, settings.spark_conf))
        if found is not None:
            files += [DataFile(table.name, *size) for size in file_sizes(found, table)]
    before = plan_ahead(files, now, within, settings.history_days, settings.history_mib).remove_before
    return 0.0 if before is None else before.timestamp()


_FAR = datetime.max.replace(tzinfo=UTC)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def carry_out(stored: Mapping[TableName, StoredTable], upkeep: TableUpkeep) -> None:
    """Removes and compacts; the files themselves go with the next `vacuum`."""
    if upkeep.remove_before is not None:
        for table in stored.values():
            table.remove_before(upkeep.remove_before)
    for name, day in upkeep.compact:
        stored[name].compact(day)
