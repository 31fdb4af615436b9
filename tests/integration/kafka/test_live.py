"""Watching a real topic: what is left out is counted, and what comes after it is seen."""

from __future__ import annotations

from confluent_kafka import Producer

from penstock.contract import topics
from penstock.kafka.live import following
from penstock.settings import Settings
from tests.running import kafka_access
from tests.waiting import eventually


def test_after_leaving_out_it_goes_on_with_what_comes_then(kafka: Settings) -> None:
    producer = Producer(kafka_access(kafka))

    def send(name: str, count: int) -> None:
        for number in range(count):
            producer.produce(topics.EVENTS, f"{name}-{number}", partition=number % kafka.partitions)
        assert producer.flush(30) == 0

    send("before", kafka.partitions)
    with following(kafka, topics.EVENTS) as reader:
        seen = list[bytes | None]()

        def saw(name: str, count: int) -> bool:
            seen.extend(record.value for _, record in reader.poll(0.2))
            return sum((value or b"").startswith(f"{name}-".encode()) for value in seen) == count

        send("first", 10)
        eventually(lambda: saw("first", 10))
        send("unseen", 40)
        assert reader.leave_out(0.1) == {topics.EVENTS: 40}
        send("later", 10)
        eventually(lambda: saw("later", 10))
        assert not any((value or b"").startswith(b"unseen") for value in seen)
