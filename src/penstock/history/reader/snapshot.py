"""A snapshot of the history: the newest version of each table, and the newer records in Kafka as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from penstock.history.reader.answers import TableState
from penstock.history.reader.tables import TableFiles, read_table
from penstock.history.schema.columns import Table, TableName
from penstock.history.schema.rows import Row, attempt_row, event_row
from penstock.kafka.ranges import LogRecord, RangeReader
from penstock.kafka.topic_ends import KafkaAway, Retained
from penstock.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

ROW_OF: Mapping[TableName, Callable[[LogRecord], Row | None]] = {"events": event_row, "attempts": attempt_row}

Read = Callable[[str, Mapping[int, int], Mapping[int, int]], Iterator[list[LogRecord]]]


def starts_of(retained: Mapping[int, Retained], positions: Mapping[int, int]) -> dict[int, int]:
    """Where reading begins: at the table's own position, or at the oldest record where retention has passed it."""
    return {number: max(kept.first, positions.get(number, 0)) for number, kept in retained.items()}


def newest(starts: Mapping[int, int], ends: Mapping[int, int], most: int | None) -> dict[int, int]:
    """Where reading begins if no more than `most` records are to be read, shared evenly among the partitions."""
    share = None if most is None else max(1, most // max(1, len(starts)))
    return {
        number: start if share is None else max(start, ends.get(number, start) - share)
        for number, start in starts.items()
    }


def oldest_by_partition(table: Table, found: Iterable[list[Row]]) -> dict[int, datetime]:
    """The time of the oldest of these rows, by partition."""
    partition, arrival = table.names.index("partition"), table.names.index(table.moment)
    oldest: dict[int, datetime] = {}
    for rows in found:
        for row in rows:
            oldest[row[partition]] = min(row[arrival], oldest.get(row[partition], row[arrival]))
    return oldest


def rest_rows(
    read: Read, table: TableName, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[list[Row]]:
    """The rows between `starts` and `ends`, some hundreds at a time."""
    row_of = ROW_OF[table]
    for records in read(topic, starts, ends):
        yield [row for record in records if (row := row_of(record)) is not None]


class RecordReader(Protocol):
    """Reads Kafka."""

    def retained(self, topic: str) -> dict[int, Retained]:
        """What each partition holds. Raises KafkaAway."""

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        """The records in between. Raises KafkaAway."""

    def close(self) -> None:
        """Closes its Kafka client."""


@dataclass(frozen=True)
class Last:
    """The newest rows."""

    rows: pa.Table
    all_since: datetime | None
    """The rows are complete from this time on; None if there are none."""


class Moment:
    """The tables and Kafka at one moment."""

    def __init__(
        self, settings: Settings, connect: Callable[[Settings], RecordReader] = RangeReader, most: int | None = None
    ) -> None:
        self._settings, self._connect, self._most = settings, connect, most
        self.away: str | None = None
        """Why Kafka could not be read, or None."""
        self.unread: dict[str, int] = {}
        """Records of Kafka, by table, that were too many to be read."""
        self._reader: RecordReader | None = None
        self._files: dict[str, TableFiles | None] = {}
        self._retained: dict[str, dict[int, Retained]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self._read_to: dict[str, dict[int, int]] = {}
        self._stale: set[str] = set()

    def close(self) -> None:
        """Closes its Kafka client."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def move_on(self) -> None:
        """Moves on to newer records of Kafka; the versions of the tables stay."""
        self._retained = {}
        self._stale = set(self._batches)

    def files(self, table: Table) -> TableFiles | None:
        """The files of the table, as of this moment."""
        if table.name not in self._files:
            partitions = max(self._settings.partitions, len(self._kept(table)))
            self._files[table.name] = read_table(self._settings, table, partitions)
        return self._files[table.name]

    def rest(self, table: Table) -> pa.Table:
        """The records of Kafka that are not in the table."""
        import pyarrow as pa

        from penstock.history.schema.arrow import schema_of

        if table.name not in self._batches or table.name in self._stale:
            self._read(table)
        return pa.Table.from_batches(self._batches[table.name], schema_of(table))

    def last(self, table: Table, count: int) -> Last | None:
        """The last `count` records of each partition of Kafka, and from when on these are all there are, as far as the
        table is older. None where a partition does not tell, because all of its records are in the table."""
        import pyarrow as pa

        from penstock.history.schema.arrow import batch_of, schema_of

        files, kept = self.files(table), self._kept(table)
        ends = {number: one.end for number, one in kept.items()}
        starts = starts_of(kept, files.positions if files else {})
        if self._reader is None or not ends:
            return None
        try:
            found = list(
                rest_rows(self._reader.read, table.name, table.topic, newest(starts, ends, count * len(ends)), ends)
            )
        except KafkaAway:
            return None  # the caller reports it
        begins = oldest_by_partition(table, found)
        if any(number not in begins and one.end > 0 for number, one in kept.items()):
            return None
        rows = pa.Table.from_batches([batch_of(table, rows) for rows in found], schema_of(table))
        return Last(rows, max(begins.values(), default=None))

    def state(self, table: Table) -> TableState:
        """The offsets that the table reaches to."""
        files, kept = self.files(table), self._kept(table)
        positions = files.positions if files is not None else {}
        starts = starts_of(kept, positions)
        behind = sum(max(0, one.end - starts[number]) for number, one in kept.items())
        return TableState(
            table.name,
            files.version if files else None,
            len(files.files) if files else 0,
            files.bytes if files else 0,
            files.days if files else (),
            positions,
            None if self.away else behind,
        )

    def _read(self, table: Table) -> None:
        from penstock.history.schema.arrow import batch_of

        batches = self._batches.setdefault(table.name, [])
        self._stale.discard(table.name)
        files, kept = self.files(table), self._kept(table)
        ends = {number: one.end for number, one in kept.items()}
        wanted = self._read_to.get(table.name) or starts_of(kept, files.positions if files else {})
        read_to = newest(wanted, ends, self._most)
        skipped = sum(read_to[number] - wanted[number] for number in read_to)
        self.unread[table.name] = self.unread.get(table.name, 0) + skipped
        if self._reader is None or not ends:
            return
        try:
            for rows in rest_rows(self._reader.read, table.name, table.topic, read_to, ends):
                batches.append(batch_of(table, rows))
        except KafkaAway as error:
            self.away = str(error)
            batches.clear()
            return
        self._read_to[table.name] = ends

    def _kept(self, table: Table) -> dict[int, Retained]:
        """The offsets of the topic in Kafka; empty if Kafka is unreachable."""
        if self.away is not None:
            return {}
        if table.topic not in self._retained:
            try:
                self._reader = self._reader or self._connect(self._settings)
                self._retained[table.topic] = self._reader.retained(table.topic)
            except KafkaAway as error:
                self.away = str(error)
                return {}
        return self._retained[table.topic]
