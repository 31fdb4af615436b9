"""Writers that break tell their scope, and what Kafka does not take is reported, not retried for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from penstock.contract import reports, topics
from penstock.dispatcher.cursors.cursor_store import TailGuard
from penstock.kafka import clients
from penstock.kafka.events import EventWriter
from penstock.kafka.reports import Reporter
from penstock.kafka.transactions import Entry, Fenced, TransactionalPartition
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
ABORTABLE = KafkaError(KafkaError._FAIL, "a record failed", txn_requires_abort=True)


class ProducerDouble:
    """A transactional producer whose broker takes batches up to a size, and refuses larger ones as a whole."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.committed: list[str] = []
        self.begun = 0
        self.fenced = False
        self._batch: list[tuple[str, int, Any]] = []
        self._written: list[str] = []
        self._refused: list[Any] = []

    def begin_transaction(self) -> None:
        self.begun += 1
        self._batch, self._written, self._refused = [], [], []

    def produce(self, _topic: str, *, key: str, value: bytes | None, on_delivery: Any = None, **_: object) -> None:
        if self._refused:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._batch.append((key, len(value or b""), on_delivery))

    def flush(self, _: float) -> None:
        if sum(size for _, size, _ in self._batch) > self.limit:
            self._refused += [confirm for _, _, confirm in self._batch]
        else:
            self._written += [key for key, _, _ in self._batch]
        self._batch = []

    def commit_transaction(self, seconds: float) -> None:
        if self.fenced:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self.flush(seconds)
        if self._refused:
            raise KafkaException(ABORTABLE)
        self.committed += self._written

    def abort_transaction(self, _: float) -> None:
        """Whoever asked hears only now what was refused."""
        for confirm in self._refused:
            if confirm is not None:
                confirm(TOO_LARGE, None)

    def poll(self, _: float) -> None:
        """There is nothing to hear."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> ProducerDouble:
    double = ProducerDouble()
    monkeypatch.setattr(clients, "producer", lambda *_, **__: double)
    monkeypatch.setattr("penstock.kafka.transactions.BACK_OFF_SECONDS", 0.0)
    return double


def entry(key: str, size: int) -> Entry:
    return Entry(topics.CURSORS, key, b"x" * size)


def without(entries: list[Entry], refused: Entry) -> list[Entry]:
    return [one for one in entries if one is not refused]


def test_a_record_that_kafka_refuses_is_left_out_and_the_rest_is_committed(producer: ProducerDouble) -> None:
    partition = TransactionalPartition(Settings(), "cursors", 0)
    with capture_logs() as lines:
        partition.commit([entry("a", 10), entry("big", 200), entry("b", 20), entry("bigger", 300)], without)
    assert producer.committed == ["a", "b"]
    refused = [line["key"] for line in lines if line["event"].startswith("Kafka refuses a record")]
    assert refused == ["big", "bigger"]


def test_a_batch_that_is_too_large_loses_no_record_that_fits_alone(producer: ProducerDouble) -> None:
    partition = TransactionalPartition(Settings(), "cursors", 0)
    with capture_logs() as lines:
        partition.commit([entry("a", 60), entry("b", 60), entry("c", 60)], without)
    assert producer.committed == ["a", "b", "c"]
    assert [line for line in lines if line["event"].startswith("Kafka refuses a record")] == []


def test_a_record_that_was_refused_is_not_tried_again_until_it_is_smaller(producer: ProducerDouble) -> None:
    partition = TransactionalPartition(Settings(), "cursors", 0)
    partition.commit([entry("big", 200)], without)
    producer.begun = 0
    partition.commit([entry("a", 1), entry("big", 250)], without)
    assert (producer.begun, producer.committed) == (1, ["a"])
    partition.commit([entry("big", 50)], without)
    assert producer.committed == ["a", "big"]


def test_a_fenced_task_ends(producer: ProducerDouble) -> None:
    producer.fenced = True
    with pytest.raises(Fenced, match="partition 0"):
        TransactionalPartition(Settings(), "cursors", 0).commit([entry("a", 1)], without)


def test_a_tail_is_held_while_a_cursor_is_not_written() -> None:
    held = TailGuard(0)
    cursor, tail, other = entry("route/0", 9), entry("tail/0", 1), entry("other/0", 2)
    assert held.admit([cursor, tail]) == [cursor, tail]
    assert held.without([cursor, tail, other], cursor) == [other]
    assert held.admit([other]) == [other]
    newer = entry("tail/0", 2)
    assert held.admit([other, newer]) == [other]
    assert held.admit([cursor]) == [cursor, newer]
    assert held.admit([other]) == [other]


def test_a_payload_that_is_not_written_holds_nothing_back() -> None:
    held = TailGuard(0)
    payload, tail = entry("payload/route/0/7", 9), entry("tail/0", 1)
    assert held.without([payload, tail], payload) == [tail]
    assert held.admit([tail]) == [tail]


class BrokenProducer:
    """Raises wherever it is polled."""

    def poll(self, _: float) -> None:
        raise ZeroDivisionError("on purpose")

    def produce(self, *_: object, **__: object) -> None:
        raise BufferError

    def flush(self, _: float) -> None:
        """Nothing is left."""


async def test_a_writer_of_events_that_breaks_ends_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "producer", lambda *_, **__: BrokenProducer())
    scope = TaskScope()
    writer = EventWriter(Settings(), "ingress", scope.fail, timeout_seconds=1)
    writer._poll()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scope.failed(), 60)
    await writer.close(0)


async def test_a_reporter_that_breaks_ends_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "producer", lambda *_, **__: BrokenProducer())
    monkeypatch.setattr(reports, "HEARTBEAT_SECONDS", 0.001)
    scope = TaskScope()
    Reporter(Settings(), "ingress", "one", scope.fail)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(scope.failed(), 60)
