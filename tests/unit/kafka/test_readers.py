"""Readers end with an exception that their scope hears of, and pass over what cannot be read."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from penstock.contract.records import Unreadable
from penstock.kafka import clients
from penstock.kafka.random_reader import RandomReader
from penstock.kafka.ranges import AT_ONCE, RangeReader
from penstock.kafka.table import TableFollower
from penstock.kafka.tail import Decoder, TailReader
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.unit.kafka.kafka_doubles import BatchConsumerDouble, ConsumerDouble, MessageDouble

GONE = KafkaException(KafkaError(KafkaError._FATAL))


class Numbered:
    def __init__(self, offset: int) -> None:
        self.offset = offset


def read(_partition: int, offset: int, _at: int, _headers: object, value: bytes | None) -> Numbered:
    if value == b"unreadable":
        raise Unreadable("on purpose")
    if value == b"defect":
        raise ZeroDivisionError("on purpose")
    return Numbered(offset)


DECODER = Decoder(read, lambda _, offset: Numbered(-offset))


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes every consumer one that gives these messages."""

    def prepare(*queued: MessageDouble | Exception) -> ConsumerDouble:
        consumer = ConsumerDouble(*queued)
        monkeypatch.setattr(clients, "consumer", lambda *_, **__: consumer)
        return consumer

    return prepare


def tail(scope: TaskScope, deliver: Any) -> TailReader[Numbered]:
    reader = TailReader(Settings(), "topic", {0: 0}, DECODER, deliver=deliver, scope=scope)
    reader.start()
    return reader


@pytest.mark.parametrize("end", [GONE, MessageDouble(content=b"defect")])
async def test_a_tail_that_breaks_ends_its_owner(connect: Any, end: MessageDouble | Exception) -> None:
    consumer, scope = connect(end), TaskScope()
    reader = tail(scope, lambda _: None)
    with pytest.raises((KafkaException, ZeroDivisionError)):
        await asyncio.wait_for(scope.failed(), 60)
    await asyncio.to_thread(reader.stop)
    assert consumer.closed


async def test_a_batch_that_is_not_taken_ends_the_owner_and_no_later_one_is_taken(connect: Any) -> None:
    connect(*(MessageDouble(offset) for offset in range(3)))
    scope, taken = TaskScope(), list[int]()

    def take(batch: list[Numbered]) -> None:
        if batch[0].offset == 1:
            raise ZeroDivisionError("on purpose")
        taken.extend(record.offset for record in batch)

    reader = tail(scope, take)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scope.failed(), 60)
    await asyncio.to_thread(reader.stop)
    await asyncio.sleep(0)
    assert taken == [0]


async def test_a_record_that_cannot_be_read_is_named_and_stood_in_for(connect: Any) -> None:
    connect(MessageDouble(7, named=b"\xffkey", content=b"unreadable"), MessageDouble(8))
    scope, taken, both = TaskScope(), list[int](), asyncio.Event()

    def take(batch: list[Numbered]) -> None:
        taken.extend(record.offset for record in batch)
        if len(taken) == 2:
            both.set()

    with capture_logs() as lines:
        reader = tail(scope, take)
        await asyncio.wait_for(both.wait(), 60)
        await asyncio.to_thread(reader.stop)
    assert taken == [-7, 8]
    [line] = lines
    named = {name: line[name] for name in ("topic", "partition", "offset", "key", "problem")}
    assert named == {"topic": "topic", "partition": 0, "offset": 7, "key": "\\xffkey", "problem": "on purpose"}


@pytest.mark.parametrize("end", [GONE, MessageDouble(content=b"defect")])
async def test_a_random_reader_that_breaks_ends_its_owner(connect: Any, end: MessageDouble | Exception) -> None:
    connect(end)
    scope = TaskScope()
    reader = RandomReader(Settings(), "topic", DECODER, scope)
    asking = asyncio.create_task(reader.chunk(0, 0, 5))
    with pytest.raises((KafkaException, ZeroDivisionError)):
        await asyncio.wait_for(scope.failed(), 60)
    asking.cancel()
    await asyncio.to_thread(reader.stop)


@pytest.mark.parametrize("end", [GONE, MessageDouble(content=b"defect")])
def test_a_follower_that_breaks_tells_its_owner(connect: Any, end: MessageDouble | Exception) -> None:
    connect(end)
    told, failed = list[BaseException](), threading.Event()

    def fail(error: BaseException) -> None:
        told.append(error)
        failed.set()

    def apply(_: str, value: bytes | None) -> None:
        if value == b"defect":
            raise ZeroDivisionError("on purpose")

    follower = TableFollower(Settings(), "topic", apply, lambda: None, fail)
    follower.start()
    assert failed.wait(5)
    follower.stop()
    assert isinstance(told[0], KafkaException | ZeroDivisionError)


def test_a_follower_catches_up_with_a_topic_that_is_written_all_the_time(connect: Any) -> None:
    """Kafka reports the end of a partition only if a fetch finds no record."""
    consumer = connect(*(MessageDouble(offset, named=b"key") for offset in range(5)))
    consumer.end = 3
    seen, caught_up, read = list[str](), list[int](), threading.Event()

    def apply(name: str, _: bytes | None) -> None:
        seen.append(name)
        if len(seen) == 5:
            read.set()

    follower = TableFollower(
        Settings(), "topic", apply, lambda: caught_up.append(len(seen)), lambda error: pytest.fail(repr(error))
    )
    follower.start()
    assert read.wait(60)
    follower.stop()
    assert caught_up == [3]


@pytest.mark.parametrize("key", [b"\xff", None])
def test_a_follower_passes_over_keys_that_are_none(connect: Any, key: bytes | None) -> None:
    connect(MessageDouble(3, named=key), MessageDouble(4, named=b"good"))
    seen, reached = list[str](), threading.Event()

    def apply(name: str, _: bytes | None) -> None:
        seen.append(name)
        reached.set()

    with capture_logs() as lines:
        follower = TableFollower(Settings(), "topic", apply, lambda: None, lambda error: pytest.fail(repr(error)))
        follower.start()
        assert reached.wait(5)
        follower.stop()
    assert seen == ["good"]
    assert [line["offset"] for line in lines] == [3]


def range_read(
    monkeypatch: pytest.MonkeyPatch, messages: list[MessageDouble], start: int, end: int
) -> tuple[list[int], list[int]]:
    """The offsets that are read of a partition with these messages, and how many records were asked for each time."""
    consumer = BatchConsumerDouble(*messages)
    monkeypatch.setattr(clients, "consumer", lambda *_, **__: consumer)
    batches = RangeReader(Settings()).read("topic", {0: start}, {0: end})
    return [record.offset for records in batches for record in records], consumer.asked


def test_a_range_is_read_without_waiting_for_records_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    end = AT_ONCE + 20
    offsets, asked = range_read(monkeypatch, [MessageDouble(offset) for offset in range(5, end + 100)], 5, end)
    assert (offsets, asked) == (list(range(5, end)), [AT_ONCE, 15])


def test_offsets_that_no_record_has_end_a_range_with_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    over = MessageDouble(problem=KafkaError(KafkaError._PARTITION_EOF))
    assert range_read(monkeypatch, [MessageDouble(3), MessageDouble(7), over], 0, 10) == ([3, 7], [10])
