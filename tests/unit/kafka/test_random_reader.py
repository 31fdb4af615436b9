"""Partitions of which one does not answer: the others are read all the same, and it when it is back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from confluent_kafka import KafkaError, TopicPartition

from penstock.kafka import clients, random_reader
from penstock.kafka.random_reader import Chunk, NotReadNow, RandomReader
from penstock.kafka.tail import Decoder
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.waiting import until

RECORDS = 1000
"""In each partition."""


@dataclass
class Record:
    partition: int
    offset: int


def read(partition: int, offset: int, _at: int, _headers: object, _value: bytes | None) -> Record:
    return Record(partition, offset)


@dataclass
class Topic:
    """What all consumers see."""

    silent: set[int] = field(default_factory=set)
    first: int = 0
    """Retention has removed what is before it."""
    consumers: int = 0


class Consumer:
    """A consumer of one partition at a time."""

    def __init__(self, topic: Topic) -> None:
        self._topic, self._place = topic, [0, 0]
        topic.consumers += 1

    def assign(self, places: list[TopicPartition]) -> None:
        self._place = [places[0].partition, places[0].offset]

    def unassign(self) -> None:
        """Nothing is read until it is assigned again."""

    def poll(self, _: float) -> Any:
        partition, offset = self._place
        if partition in self._topic.silent:
            time.sleep(0.001)
            return None
        offset = self._place[1] = max(offset, self._topic.first)
        if offset >= RECORDS:
            time.sleep(0.001)
            return SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))
        self._place[1] += 1
        return SimpleNamespace(
            error=lambda: None,
            partition=lambda: partition,
            offset=lambda: offset,
            timestamp=lambda: (1, 1000),
            headers=list,
            value=lambda: b"",
        )

    def consume(self, _count: int, _timeout: float) -> list[Any]:
        return []

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return self._topic.first, RECORDS

    def list_topics(self, *_: object) -> None:
        """It is known."""

    def close(self) -> None:
        self._topic.consumers -= 1


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(clients, "consumer", lambda *_, **__: Consumer(made))
    monkeypatch.setattr(random_reader, "UNRESPONSIVE_SECONDS", 0.05)
    return made


@pytest_asyncio.fixture
async def reader(topic: Topic) -> AsyncIterator[RandomReader[Record]]:
    scope = TaskScope()
    decoder = Decoder(read, Record)
    made = RandomReader(Settings(), "topic", decoder, scope)
    yield made
    await asyncio.to_thread(made.stop)
    assert scope.failure is None


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def readers() -> int:
    return sum("random reader" in thread.name for thread in threading.enumerate())


async def test_a_partition_that_does_not_answer_keeps_no_other_waiting(
    topic: Topic, reader: RandomReader[Record]
) -> None:
    topic.silent.add(1)
    stuck = asyncio.create_task(reader.chunk(1, 5, 8))
    behind = [asyncio.create_task(reader.chunk(number % 2, number, number + 2)) for number in range(8)]
    async with asyncio.timeout(10):
        for number in (0, 2, 4, 6):
            assert offsets((await behind[number]).records) == [number, number + 1]
        assert await reader.record(0, 7) == Record(0, 7)
    assert not stuck.done()
    topic.silent.clear()
    async with asyncio.timeout(10):
        assert offsets((await stuck).records) == [5, 6, 7]
        for number in (1, 3, 5, 7):
            assert offsets((await behind[number]).records) == [number, number + 1]


async def test_a_partition_that_retention_has_emptied_answers_a_request_beyond_its_end(
    topic: Topic, reader: RandomReader[Record]
) -> None:
    topic.first = RECORDS
    async with asyncio.timeout(10):
        assert await reader.chunk(0, RECORDS - 5, RECORDS + 5) == Chunk(RECORDS, RECORDS + 5, [], RECORDS)


async def test_single_records_of_it_are_refused_until_it_answers(topic: Topic, reader: RandomReader[Record]) -> None:
    """Who waits for one holds a place among the requests to a subscriber."""
    topic.silent.add(1)
    waiting = [asyncio.create_task(reader.record(1, offset)) for offset in (3, 500)]
    for one in waiting:
        with pytest.raises(NotReadNow, match="partition 1 of topic does not respond"):
            await one
    with pytest.raises(NotReadNow, match="partition 1 of topic"):
        await reader.record(1, 3)
    assert await reader.record(0, 3) == Record(0, 3)
    topic.silent.clear()
    assert (await reader.chunk(1, 3, 4)).records == [Record(1, 3)]
    assert await reader.record(1, 500) == Record(1, 500)


async def test_one_thread_is_enough_again_when_all_answer(topic: Topic, reader: RandomReader[Record]) -> None:
    for partition in range(4):
        await reader.chunk(partition, 0, 3)
    assert (readers(), topic.consumers) == (1, 1)
    topic.silent.update({1, 2})
    stuck = [asyncio.create_task(reader.chunk(partition, 0, 3)) for partition in (1, 2)]
    await until(lambda: (topic.consumers, readers()) == (3, 3), seconds=10, every=0.001)
    topic.silent.clear()
    for one in stuck:
        assert offsets((await one).records) == [0, 1, 2]
    await until(lambda: (topic.consumers, readers()) == (1, 1), seconds=10, every=0.001)
    assert offsets((await reader.chunk(1, 7, 9)).records) == [7, 8]
    assert readers() == 1


async def test_without_requests_there_is_no_client(
    topic: Topic, reader: RandomReader[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readers() == 0
    monkeypatch.setattr(random_reader, "UNUSED_SECONDS", 0.01)
    monkeypatch.setattr(random_reader, "LOOK_SECONDS", 0.01)
    for _ in range(3):
        assert offsets((await reader.chunk(0, 7, 9)).records) == [7, 8]
        await until(lambda: (topic.consumers, readers()) == (0, 0), seconds=10, every=0.001)
