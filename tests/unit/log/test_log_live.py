"""Watching topics grow: a Kafka that goes away is told to whoever watches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.log.live.reader import LiveReader
from penstock.log.topic_ends import KafkaAway


class Topic:
    """A topic of one partition in which nothing happens."""

    def __init__(self) -> None:
        self.away = False

    def list_topics(self, topic: str = "", timeout: float = 0) -> Any:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=[0])})

    def get_watermark_offsets(self, place: object, timeout: float) -> tuple[int, int]:
        return 0, 7

    def assign(self, places: object) -> None:
        """From its end on."""

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
