"""Records of Kafka as rows of the tables, in Python: for what Kafka has beyond the tables. `frames` says it in Spark.

A row is a tuple in the order of the table's columns. None: the record is not one of the table's, such as a marker.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from penstock.contract import attempts, records
from penstock.contract.records import Unreadable
from penstock.events import kafka_binding as kafka
from penstock.events.event import REQUIRED
from penstock.history.schema.columns import ATTRIBUTES, EVENTS
from penstock.kafka.ranges import LogRecord

Row = tuple[Any, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STORED_AS = {name: kafka.PREFIX + name for name in ATTRIBUTES}
OWN_COLUMN = frozenset({*STORED_AS.values(), kafka.CONTENT_TYPE, records.TARGET, records.TRACE})
"""Headers whose values have columns of their own."""


_COLUMN_OF = {header: EVENTS.names.index(name) for name, header in STORED_AS.items()}
_COLUMN_OF |= {
    kafka.CONTENT_TYPE: EVENTS.names.index("datacontenttype"),
    records.TARGET: EVENTS.names.index("target"),
    records.TRACE: EVENTS.names.index("traceparent"),
}
_REQUIRED = tuple(EVENTS.names.index(name) for name in (*REQUIRED, "target"))
_DAY, _PARTITION, _OFFSET, _ARRIVAL, _EXTENSIONS, _DATA, _KEY, _OTHERS = (
    EVENTS.names.index(name)
    for name in ("day", "partition", "offset", "arrival", "extensions", "data", "key", "headers")
)


def event_row(record: LogRecord) -> Row | None:
    """The row of a record of `penstock.events`. It is made for every event there is: in one pass over its headers."""
    row: list[Any] = [None] * len(EVENTS.columns)
    extensions: dict[str, str] = {}
    others: list[dict[str, Any]] = []
    for name, raw in record.headers:
        column = _COLUMN_OF.get(name)
        if column is not None:
            row[column] = _text(raw)
        elif name.startswith(kafka.PREFIX):
            extensions[name[len(kafka.PREFIX) :]] = _text(raw) or ""
        else:
            others.append({"key": name, "value": raw})
    for column in _REQUIRED:
        if row[column] is None:
            return None
    arrival = _moment(record.at_ms * 1000)
    row[_DAY], row[_ARRIVAL] = _day(arrival.toordinal()), arrival
    row[_PARTITION], row[_OFFSET], row[_KEY], row[_DATA] = record.partition, record.offset, record.key, record.value
    row[_EXTENSIONS], row[_OTHERS] = extensions, others
    return tuple(row)


def attempt_row(record: LogRecord) -> Row | None:
    """The row of a record of `penstock.attempts`."""
    try:
        attempt = attempts.decode(record.value or b"")
        start = _moment(round(attempt.at * 1_000_000))
        due = None if attempt.due is None else _moment(round(attempt.due * 1_000_000))
    except (Unreadable, OverflowError):  # no attempt was ever made in the year 10,000
        return None
    return (
        _day(start.toordinal()),
        record.partition,
        attempt.origin,
        record.offset,
        attempt.id,
        attempt.source,
        attempt.type,
        attempt.route,
        attempt.kind or None,
        attempt.namespace or None,
        attempt.name or None,
        attempt.stage,
        attempt.attempt,
        attempt.destination,
        start,
        attempt.latency,
        attempt.status,
        attempt.result,
        attempt.reason,
        due,
    )


def _text(raw: bytes | None) -> str | None:
    """Records are untrusted: bytes that are not UTF-8 must not make the table unreadable."""
    return None if raw is None else raw.decode("utf-8", "replace")


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


@lru_cache(maxsize=16)
def _day(ordinal: int) -> date:
    return date.fromordinal(ordinal)
