"""The columns of the tables `events` and `attempts`: a contract with their readers.

Columns are only ever added, at the end, and may be null in rows that are older; none is renamed, removed or given
another type without a new `VERSION`, which readers of an older penstock refuse.
"""

from __future__ import annotations

from datetime import datetime, time
from typing import Literal, NamedTuple

from penstock.contract import topics

VERSION = 1
"""Raised when an older reader would misunderstand the tables."""

VERSION_ID = "penstock.schema"
"""Id of the Delta transaction whose version is that of the schema: it is committed with the rows."""

GAPS = 8
"""How many gaps of a partition are remembered."""

DAY = "day"
"""What both tables are partitioned by."""

HEADERS = "array<struct<key:string,value:binary>>"

TableName = Literal["events", "attempts"]


class Column(NamedTuple):
    """One column; the type is Spark's."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """One table, and the topic that it is made of."""

    name: TableName
    topic: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def moment(self) -> str:
        """The column with the time at which the event arrived or the attempt began; `day` is its day."""
        return "arrival" if self.name == "events" else "start"

    def older_than(self, moment: datetime) -> str:
        """The condition, in SQL, of rows from before a moment; of whole days where it is the beginning of one."""
        whole_days = f"{DAY} < date '{moment:%Y-%m-%d}'"
        if moment.time() == time.min:
            return whole_days
        return (
            f"{whole_days} or ({DAY} = date '{moment:%Y-%m-%d}' and {self.moment} < '{moment:%Y-%m-%dT%H:%M:%S.%fZ}')"
        )

    def ddl(self) -> str:
        """The columns as SQL declares them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def position(self, partition: int) -> str:
        """Id of the Delta transaction whose version is the first offset of the partition that is not in the table."""
        return f"{self.topic}/{partition}"

    def gaps(self, partition: int) -> tuple[str, ...]:
        """Ids of the Delta transactions whose versions are the offsets at which the newest gaps of the partition begin:
        what Kafka removed before it was written. A gap ends with the next offset that is in the table."""
        return tuple(f"{self.topic}/{partition}/gap/{number}" for number in range(GAPS))


EVENTS = Table(
    "events",
    topics.EVENTS,
    (
        Column(DAY, "date", "day of the arrival, UTC; the table is partitioned by it"),
        Column("partition", "int", "partition of `penstock.events`"),
        Column("offset", "bigint", "offset there; with the partition, the identity of the event"),
        Column("arrival", "timestamp", "when it was accepted"),
        Column("target", "string", "uid of the Broker or Channel that accepted it"),
        Column("id", "string", "attribute `id`"),
        Column("source", "string", "attribute `source`"),
        Column("type", "string", "attribute `type`"),
        Column("specversion", "string", "attribute `specversion`"),
        Column("subject", "string", "attribute `subject`"),
        Column("time", "string", "attribute `time`, as it was written"),
        Column("dataschema", "string", "attribute `dataschema`"),
        Column("datacontenttype", "string", "attribute `datacontenttype`"),
        Column("extensions", "map<string,string>", "all other attributes"),
        Column("data", "binary", "the data; null where there is none"),
        Column("traceparent", "string", "W3C trace context; characters 4 to 35 are the trace's id"),
        Column("key", "binary", "key of the record, which determined its partition"),
        Column("headers", HEADERS, "further headers of the record, such as HTTP headers that are passed on"),
    ),
)

ATTEMPTS = Table(
    "attempts",
    topics.ATTEMPTS,
    (
        Column(DAY, "date", "day of the start, UTC; the table is partitioned by it"),
        Column("partition", "int", "partition of the event, and of the record in `penstock.attempts`"),
        Column("offset", "bigint", "offset of the event in `penstock.events`"),
        Column("record", "bigint", "offset of the record in `penstock.attempts`; the identity of the attempt"),
        Column("id", "string", "attribute `id` of the event"),
        Column("source", "string", "attribute `source` of the event"),
        Column("type", "string", "attribute `type` of the event"),
        Column("route", "string", "uid of the Trigger or Subscription"),
        Column("kind", "string", "`Trigger` or `Subscription`"),
        Column("namespace", "string", "its namespace"),
        Column("name", "string", "its name"),
        Column("stage", "string", "`subscriber`, `reply` or `deadletter`"),
        Column("attempt", "int", "counted from 1 in each stage"),
        Column("destination", "string", "URL"),
        Column("start", "timestamp", "when it began"),
        Column("duration", "double", "seconds until the response, or until the attempt was aborted"),
        Column("status", "int", "HTTP status; null if there was no response"),
        Column("result", "string", "`delivered`, `replied`, `retry`, `deadletter`, `dropped` or `cancelled`"),
        Column("reason", "string", "why it failed"),
        Column("due", "timestamp", "when the next attempt is due, where the result is `retry`"),
    ),
)

TABLES = (EVENTS, ATTEMPTS)

ATTRIBUTES = ("id", "source", "type", "specversion", "subject", "time", "dataschema")
"""Attributes of CloudEvents that have a column of their own and are stored as `ce_` headers; the content type has its
own header."""


class HistoryProblem(Exception):
    """An error of a table or query, with advice. Deliveries are not affected."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


def newer(place: str, written: int, known: int) -> HistoryProblem:
    """The error for a table of a newer version."""
    return HistoryProblem(
        f"The table {place} was written by a newer version of penstock (schema {written}; this one supports {known}).",
        "Use that version, or another history_uri.",
    )


def foreign(place: str) -> HistoryProblem:
    """The error for a table that penstock did not create."""
    return HistoryProblem(f"{place} is a Delta table that penstock did not create.", "Choose another history_uri.")
