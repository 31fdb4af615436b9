"""Which events a route gave up, by the records of its attempts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from penstock.contract import topics
from penstock.contract.attempts import AttemptRecord, decode
from penstock.contract.routes import Replay
from penstock.contract.unreadable import Unreadable
from penstock.kafka.ranges import RangeReader
from penstock.settings import Settings

GIVEN_UP = ("dropped", "deadletter")
"""Results after which a subscriber never gets the event: nowhere to send it, or on to the dead letter sink."""
_IN_JSON = tuple(f'"{result}"'.encode() for result in GIVEN_UP)


def origins_given_up(attempts: Iterable[AttemptRecord], replay: Replay) -> list[int]:
    """The events that a Replay asks for, each once, in the order in which they came."""
    return sorted({attempt.origin for attempt in attempts if asks_for(replay, attempt)})


def asks_for(replay: Replay, attempt: AttemptRecord) -> bool:
    """Whether the attempt is one that the route gave up with, in the time and for the reason that are asked for."""
    return (
        attempt.route == replay.given_up_by
        and attempt.result in GIVEN_UP
        and replay.since <= attempt.at
        and (replay.until is None or attempt.at < replay.until)
        and replay.reason.lower() in (attempt.reason or "").lower()
    )


def attempts_given_up(settings: Settings, partition: int, ending: threading.Event) -> Iterator[AttemptRecord]:
    """What was given up in a partition, as far as Kafka has it. Blocks: for a thread. Raises KafkaAway."""
    reader = RangeReader(settings)
    try:
        kept = reader.retained(topics.ATTEMPTS)[partition]
        for records in reader.read(topics.ATTEMPTS, {partition: kept.first}, {partition: kept.end}):
            if ending.is_set():
                return
            yield from (found for record in records if (found := attempt_of(record.value)) is not None)
    finally:
        reader.close()


def attempt_of(value: bytes | None) -> AttemptRecord | None:
    """The attempt of a record; None where it cannot be read, and where it went well, as nearly all do."""
    if value is None or not any(result in value for result in _IN_JSON):
        return None
    try:
        return decode(value)
    except Unreadable:
        return None
