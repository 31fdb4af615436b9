"""Reporting records that cannot be read: one line that names the record, and a count by topic."""

from __future__ import annotations

import structlog
from confluent_kafka import Message

from penstock.contract import topics
from penstock.observability.metrics import UNREADABLE
from penstock.settings import DEFAULT_TOPIC_PREFIX

log = structlog.get_logger()

SHOWN_BYTES = 200
"""How much of a key, and of what is wrong with it, is shown."""

EFFECTS = {
    topics.EVENTS: "no route gets it; a copy is kept in penstock.unreadable",
    topics.MATCHED: "no route gets it; if it was an event, a Replay of that time delivers it",
    topics.ATTEMPTS: "the history does without it; no delivery depends on it",
    topics.CURSORS: "its route may get events again that were delivered before; no action is needed",
    topics.ROUTES: "the former record of its key stays in force, and the control plane writes it again",
    topics.REPORTS: "its content is determined or reported again; nothing is lost, and no action is needed",
    topics.CLAIMS: "the next record of the role counts; no action is needed",
}
"""The effect of a record that cannot be read, by topic."""


def report_unreadable(message: Message, problem: object) -> None:
    """Logs and counts a record that is skipped, with the reason."""
    topic, key = message.topic() or "", message.key()
    UNREADABLE.bind(topic).inc()
    log.error(
        "a record cannot be read and is skipped",
        topic=topic,
        partition=message.partition(),
        offset=message.offset(),
        key=readable_key(key),
        problem=str(problem)[:SHOWN_BYTES],
        effect=effect(topic),
    )


def effect(topic: str) -> str:
    """The effect of a record that cannot be read, by the name of its topic in Kafka."""
    return EFFECTS.get(f"{DEFAULT_TOPIC_PREFIX}.{topic.rpartition('.')[2]}", "")


def readable_key(key: str | bytes | None) -> str | None:
    """A key for a log line: any bytes may be one."""
    return key.decode("utf-8", "backslashreplace")[:SHOWN_BYTES] if isinstance(key, bytes) else key
