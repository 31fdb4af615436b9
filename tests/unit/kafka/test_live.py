"""Watching topics grow: a Kafka that goes away is told to whoever watches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.kafka.live import LiveReader
from penstock.kafka.topic_ends import KafkaAway


class Topic:
    """A topic of one partition in which nothing happens."""

    def __init__(self) -> None:
        self.away, self.end = False, 7

    def list_topics(self, topic: str = "", timeout: float = 0) -> Any:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=[0])})

    def get_watermark_offsets(self, place: object, timeout: float) -> tuple[int, int]:
        return 0, self.end

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = [place.offset for place in places]

    def unassign(self) -> None:
        self.assigned = []

    def poll(self, seconds: float) -> None:
        """Nothing comes."""


def test_silence_means_nothing() -> None:
    topic = Topic()
    reader = LiveReader(topic, {"t": "t"}, [])  # type: ignore[arg-type]
    topic.away = True
    assert reader.poll(0) == []


def test_a_client_without_brokers_is_asked_once_more_and_then_believed() -> None:
    topic, doubts = Topic(), [KafkaError(KafkaError._ALL_BROKERS_DOWN)]
    reader = LiveReader(topic, {"t": "t"}, doubts)  # type: ignore[arg-type]
    assert reader.poll(0) == []
    assert doubts == []
    doubts.append(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    topic.away = True
    with pytest.raises(KafkaAway, match="Connection refused"):
        reader.poll(0)


def test_what_is_left_out_is_counted_and_gone_past() -> None:
    topic = Topic()
    reader = LiveReader(topic, {"in-kafka": "t"}, [])  # type: ignore[arg-type]
    topic.end = 507
    assert reader.leave_out(0) == {"t": 500}
    assert topic.assigned == [507]
    assert reader.leave_out(0) == {"t": 0}
