"""Events and attempts in a real Kafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.contract import attempts
from penstock.contract.attempts import AttemptRecord
from penstock.settings import Settings
from tests.running import kafka_access

_numbers = itertools.count()


def send_events(settings: Settings, count: int, kind: str = "order") -> list[str]:
    """Stores events and a marker between them; their ids."""
    producer = Producer({**kafka_access(settings), "linger.ms": 5})
    ids = [f"{kind}-{next(_numbers)}" for _ in range(count)]
    for number, ident in enumerate(ids):
        headers: list[tuple[str, str | bytes | None]] = [
            ("ce_id", ident.encode()),
            ("ce_source", b"/shop"),
            ("ce_type", kind.encode()),
            ("ce_specversion", b"1.0"),
            ("ce_region", b"eu"),
            ("content-type", b"application/json"),
            ("penstock_target", b"target-1"),
            ("penstock_traceparent", f"00-{number + 1:032x}-{'b' * 16}-00".encode()),
            ("penstock_http_x-request-id", b"r1"),
        ]
        producer.produce("penstock.events", b'{"n": 1}', headers=headers, partition=number % settings.partitions)
        if number % 10 == 0:
            marker: list[tuple[str, str | bytes | None]] = [("penstock_marker", b"1:2:3")]
            producer.produce("penstock.events", None, headers=marker, partition=number % settings.partitions)
    producer.flush(60)
    return ids


def send_attempts(settings: Settings, ids: Sequence[str], broken: bool = False) -> None:
    """Stores an attempt for each id, in transactions, as the dispatcher does; `broken`: leaves some of them aborted."""
    producer = Producer({**kafka_access(settings), "transactional.id": f"test-{next(_numbers)}"})
    producer.init_transactions(60)
    for abort in (False, True) if broken else (False,):
        producer.begin_transaction()
        for number, ident in enumerate(ids):
            told = AttemptRecord(
                at=time.time(),
                route="route-1",
                partition=0,
                origin=number,
                id=ident if not abort else f"aborted-{ident}",
                source="/shop",
                type="order",
                stage="subscriber",
                attempt=1,
                destination="http://sink/",
                result="delivered",
                latency=0.01,
                status=202,
                kind="Trigger",
                namespace="default",
                name="orders",
            )
            producer.produce("penstock.attempts", attempts.encode(told), partition=number % settings.partitions)
        producer.flush(60)  # what is to be aborted may not have left the client yet, and would never stand in the topic
        if abort:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def remove_records(settings: Settings, topic: str, before: Mapping[int, int]) -> None:
    """Removes what lies before these offsets, as retention does."""
    admin = AdminClient(kafka_access(settings))
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for done in admin.delete_records(places).values():
        done.result(60)
