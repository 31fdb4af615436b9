"""Reporting records that cannot be read: one line that names the record, and a count by topic."""

from __future__ import annotations

import structlog
from confluent_kafka import Message

from penstock.observability.metrics import UNREADABLE

log = structlog.get_logger()

SHOWN_BYTES = 200
"""How much of a key, and of what is wrong with it, is shown."""


def report_unreadable(message: Message, problem: object) -> None:
    """The record is passed over, for this reason."""
    topic, key = message.topic() or "", message.key()
    UNREADABLE.bind(topic).inc()
    log.error(
        "a record cannot be read and is passed over",
        topic=topic,
        partition=message.partition(),
        offset=message.offset(),
        key=readable_key(key),
        problem=str(problem)[:SHOWN_BYTES],
    )


def readable_key(key: str | bytes | None) -> str | None:
    """A key for a log line: any bytes may be one."""
    return key.decode("utf-8", "backslashreplace")[:SHOWN_BYTES] if isinstance(key, bytes) else key
