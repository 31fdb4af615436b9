"""Where events and attempts are read: the tables of the history, and from where these end, Kafka.

Rows come in pieces, and nothing is kept: there may be many millions of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

from penstock.history.reader.database import Database
from penstock.history.reader.snapshot import rest_rows, starts_of
from penstock.history.reader.tables import read_table
from penstock.history.schema.arrow import schema_of
from penstock.history.schema.columns import EVENTS, Table
from penstock.history.schema.rows import Row
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import Retained
from penstock.settings import Settings
from penstock.verification.report import KeptEvent

Place = tuple[int, int]
"""Partition and offset."""

NEVER = 2**62
"""A time after all others, in microseconds."""


class TopicReader(Protocol):
    """What is needed of Kafka. Every call raises KafkaAway."""

    def retained(self, topic: str) -> dict[int, Retained]:
        """What each partition holds."""

    def since(self, topic: str, at_ms: int) -> dict[int, int]:
        """The first offset of each partition that was written at this time or later."""

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        """The records in between."""

    def close(self) -> None:
        """Leaves Kafka."""


class FirstKept(NamedTuple):
    """The oldest record that a table has of a partition."""

    offset: int
    at: int
    """Unix microseconds."""


class KeptRecords:
    """The records of one table: those that it has, and those that only Kafka has."""

    def __init__(self, settings: Settings, reader: TopicReader, database: Database, table: Table) -> None:
        self._reader, self._database, self._table = reader, database, table
        self._kept = reader.retained(table.topic)
        self.files = read_table(settings, table, max(settings.partitions, len(self._kept)))
        database.add(table, self.files, schema_of(table).empty_table())
        self._starts = starts_of(self._kept, self._positions)

    @property
    def _positions(self) -> Mapping[int, int]:
        return self.files.positions if self.files is not None else {}

    def rest(self, since_ms: int) -> Iterator[list[Row]]:
        """The rows that only Kafka has, of records that were written at this time or later."""
        begin = self._reader.since(self._table.topic, since_ms)
        starts = {number: max(start, begin.get(number, start)) for number, start in self._starts.items()}
        ends = {number: one.end for number, one in self._kept.items()}
        yield from rest_rows(self._reader.read, self._table.name, self._table.topic, starts, ends)

    def newer(self) -> Iterator[list[Row]]:
        """The rows after that."""
        before = {number: one.end for number, one in self._kept.items()}
        self._kept = self._reader.retained(self._table.topic)
        ends = {number: one.end for number, one in self._kept.items()}
        yield from rest_rows(self._reader.read, self._table.name, self._table.topic, before, ends)

    def events_at(self, places: Collection[Place]) -> dict[Place, KeptEvent]:
        """Single events; those that are gone are left out."""
        wanted = [(partition, offset) for partition, offset in places]
        self._database.do('create or replace table wanted (partition integer, "offset" bigint)')
        self._database.insert("wanted", ("partition", "offset"), wanted)
        question = (
            'select partition, "offset", arrival, id, source, type from events join wanted using (partition, "offset")'
        )
        found = {
            (row["partition"], row["offset"]): KeptEvent(row["arrival"], row["id"], row["source"], row["type"])
            for row in self._database.ask(question)
        }
        for partition, offset in wanted:
            if (partition, offset) not in found and offset >= self._starts.get(partition, 0):
                place = {partition: offset}, {partition: offset + 1}
                for rows in rest_rows(self._reader.read, "events", self._table.topic, *place):
                    found |= dict.fromkeys([(partition, offset)], _event_of(rows[0])) if rows else {}
        return found

    @cached_property
    def whole_since(self) -> dict[int, int]:
        """By partition, from when on no record is missing, Unix microseconds. 0: none is; NEVER: nothing is left."""
        in_table = self._firsts_in_table()
        found = {}
        for partition, kept in self._kept.items():
            position = self._positions.get(partition, 0)
            if position < kept.first or partition not in in_table:
                # What the table has, if anything, ends before Kafka begins, or was removed.
                begin = max(kept.first, position)
                at = 0 if begin == 0 else self._moment_in_kafka(partition, begin, kept.end)
            else:
                first = in_table[partition]
                at = 0 if first.offset == 0 else first.at
            found[partition] = NEVER if at is None else at
        return found

    def _firsts_in_table(self) -> dict[int, FirstKept]:
        number, at = ("offset", "arrival") if self._table.name == "events" else ("record", "start")
        # By then the record was written, and all that were written later are there.
        ended = f"epoch_us({at})" + ("" if self._table.name == "events" else " + cast(duration * 1e6 as bigint)")
        question = (
            f'select partition, min("{number}") as "first", arg_min({ended}, "{number}") as at '
            f"from {self._table.name} group by partition"
        )
        return {row["partition"]: FirstKept(row["first"], row["at"]) for row in self._database.ask(question)}

    def _moment_in_kafka(self, partition: int, begin: int, end: int) -> int | None:
        """When the first record was written that there is from an offset on; None where there is none."""
        found = self._reader.read(self._table.topic, {partition: begin}, {partition: end})
        with contextlib.closing(found) as pieces:  # type: ignore[type-var]  # it is a generator
            return next((records[0].at_ms * 1000 for records in pieces), None)


def _event_of(row: Row) -> KeptEvent:
    return KeptEvent(*(row[EVENTS.names.index(name)] for name in KeptEvent._fields))


def take_all(reader: TopicReader, topic: str, take: Callable[[list[LogRecord]], None]) -> None:
    """Reads a topic from its beginning to its end as it is now."""
    kept = reader.retained(topic)
    starts = {number: one.first for number, one in kept.items()}
    for records in reader.read(topic, starts, {number: one.end for number, one in kept.items()}):
        take(records)
