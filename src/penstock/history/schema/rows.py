"""Records of Kafka as rows of the tables, in Python: for what Kafka has beyond the tables. `frames` says it in Spark.

A row is a tuple in the order of the table's columns. None: the record is not one of the table's, such as a marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

from penstock.contract import attempts, headers
from penstock.contract.unreadable import Unreadable
from penstock.events import kafka_binding as kafka
from penstock.events.event import REQUIRED
from penstock.history.schema.columns import ATTRIBUTES
from penstock.log.ranges import LogRecord

Row = tuple[Any, ...]
RawHeaders = Iterable[tuple[str, bytes | None]]

STORED_AS = {name: kafka.PREFIX + name for name in ATTRIBUTES}
OWN_COLUMN = frozenset({*STORED_AS.values(), kafka.CONTENT_TYPE, headers.TARGET, headers.TRACE})
"""Headers whose values have columns of their own."""


def event_row(record: LogRecord) -> Row | None:
    """The row of a record of `penstock.events`."""
    stored = dict(record.headers)
    target = stored.get(headers.TARGET)
    attributes = {name: _text(stored.get(header)) for name, header in STORED_AS.items()}
    if target is None or any(attributes[name] is None for name in REQUIRED):
        return None
    arrival = _moment(record.at_ms * 1000)
    return (
        _day(arrival.toordinal()),
        record.partition,
        record.offset,
        arrival,
        _text(target),
        *attributes.values(),
        _text(stored.get(kafka.CONTENT_TYPE)),
        {name[len(kafka.PREFIX) :]: _text(raw or b"") for name, raw in _extensions(stored)},
        record.value,
        _text(stored.get(headers.TRACE)),
        record.key,
        [{"key": name, "value": raw} for name, raw in record.headers if _is_other(name)],
    )


def attempt_row(record: LogRecord) -> Row | None:
    """The row of a record of `penstock.attempts`."""
    try:
        attempt = attempts.decode(record.value or b"")
    except Unreadable:
        return None
    start = _moment(round(attempt.at * 1_000_000))
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
        None if attempt.due is None else _moment(round(attempt.due * 1_000_000)),
    )


def _extensions(stored: dict[str, bytes | None]) -> RawHeaders:
    return ((name, raw) for name, raw in stored.items() if name.startswith(kafka.PREFIX) and name not in OWN_COLUMN)


def _is_other(name: str) -> bool:
    return not name.startswith(kafka.PREFIX) and name not in OWN_COLUMN


def _text(raw: bytes | None) -> str | None:
    """Whoever writes to the topic can write anything; what is not text must not make the table unreadable."""
    return None if raw is None else raw.decode("utf-8", "replace")


def _moment(microseconds: int) -> datetime:
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


@lru_cache(maxsize=16)
def _day(ordinal: int) -> date:
    return date.fromordinal(ordinal)
