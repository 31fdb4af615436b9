"""An epoch for one that has a role already, because a Lease or the lock of a data folder says so."""

from __future__ import annotations

from typing import Any

import structlog
from confluent_kafka import KafkaError, Message

from penstock.contract import claims, topics
from penstock.contract.claims import ClaimRecord
from penstock.kafka import clients
from penstock.observability.logs import describe
from penstock.settings import Settings

log = structlog.get_logger()

TRY_SECONDS = 10.0


class NoEpoch(RuntimeError):
    """Kafka did not take the record that would have given the epoch."""


def take_epoch(settings: Settings, role: str, instance: str) -> int:
    """Writes down that this process has the role now; the epoch, which is greater than any before. Blocks."""
    producer = clients.producer(settings, "claims", {"linger.ms": 0}, watchdog=None)
    outcome: list[Any] = []

    def written(error: KafkaError | None, message: Message) -> None:
        outcome.append(error if error is not None else message.offset())

    record = ClaimRecord("take", instance, sole=True)
    producer.produce(
        clients.topic_name(settings, topics.CLAIMS),
        key=role,
        value=claims.encode(record),
        partition=0,
        on_delivery=written,
    )
    producer.flush(TRY_SECONDS)
    if not outcome or not isinstance(outcome[0], int):
        raise NoEpoch(f"Kafka took no claim to {role}: {describe(outcome[0]) if outcome else 'no answer'}")
    log.info("has the role", role=role, epoch=outcome[0])
    return outcome[0]
