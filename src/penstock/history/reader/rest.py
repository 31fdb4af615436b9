"""What Kafka has beyond the tables, as rows: with it every answer reaches up to this moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from penstock.history.schema.columns import Table, TableName
from penstock.history.schema.rows import Row, attempt_row, event_row
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import Retained

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
    """When the oldest of these rows came, for each partition that has some."""
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
