"""Replays of what Kafka has forgotten: the table fills in, and nothing comes twice."""

from __future__ import annotations

import asyncio

import pytest

from penstock.contract.routes import Replay
from penstock.dispatcher.matched.record import Matched, of_event
from penstock.dispatcher.replay.reach import FurtherBack
from penstock.history.reader.kept import FirstKept, GivenUpBy
from penstock.history.schema.problem import HistoryProblem
from penstock.log.random_reader import Chunk
from penstock.log.ranges import LogRecord


class Kafka:
    """Has the events from 6 to 9."""

    def __init__(self) -> None:
        self.reads = 0

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        self.reads += 1
        await asyncio.sleep(0)
        begin = max(begin, min(6, end))
        return Chunk(
            begin, end, [of_event(partition, offset, 0, (), b"kafka") for offset in range(begin, min(end, 10))]
        )

    async def record(self, partition: int, offset: int) -> Matched | None:
        await asyncio.sleep(0)
        return of_event(partition, offset, 0, (), b"kafka") if 6 <= offset < 10 else None


class Table:
    """Has the events from 2 to 7; 4 was a marker."""

    def firsts(self, since: float = 0.0) -> dict[int, FirstKept]:
        return {0: FirstKept(2, 2)}

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        there = [offset for offset in range(max(begin, 2), min(end, 8)) if offset != 4]
        return [LogRecord(partition, offset, 5, None, [("ce_id", b"1")], b"table") for offset in there]

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        return [3] if wanted == GivenUpBy("r", 1.0, 2.0, "why") else []


class Broken(Table):
    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        raise HistoryProblem("it is of a newer penstock")


def places(chunk: Chunk[Matched]) -> list[tuple[int, bytes | None]]:
    return [(record.origin, record.value) for record in chunk.records]


async def test_a_chunk_is_put_together() -> None:
    kept = FurtherBack(Kafka(), Table())
    chunk = await kept.chunk(0, 3, 8)
    assert places(chunk) == [(3, b"table"), (5, b"table"), (6, b"kafka"), (7, b"kafka")]
    assert (chunk.begin, chunk.end) == (3, 8)
    kept.close()


async def test_what_nobody_has_any_more_is_known() -> None:
    kept = FurtherBack(Kafka(), Table())
    assert (await kept.chunk(0, 0, 8)).begin == 2
    assert (await kept.chunk(1, 0, 8)).begin == 6
    kept.close()


async def test_kafka_is_not_asked_for_what_it_is_known_to_have_forgotten() -> None:
    kafka = Kafka()
    kept = FurtherBack(kafka, Table())
    await kept.chunk(0, 2, 8)
    assert places(await kept.chunk(0, 2, 4)) == [(2, b"table"), (3, b"table")]
    assert kafka.reads == 1
    kept.close()


async def test_single_events_are_found_in_either() -> None:
    kept = FurtherBack(Kafka(), Table())
    found = [await kept.record(0, offset) for offset in (1, 3, 4, 7)]
    assert [record and record.value for record in found] == [None, b"table", None, b"kafka"]
    assert await kept.given_up(0, Replay("Trigger", 1.0, 2.0, given_up_by="r", reason="why")) == [3]
    kept.close()


@pytest.mark.parametrize("table", [None, Broken()])
async def test_without_a_table_there_is_what_kafka_has(table: Table | None) -> None:
    kept = FurtherBack(Kafka(), table)
    chunk = await kept.chunk(0, 3, 8)
    assert (chunk.begin, places(chunk)) == (6, [(6, b"kafka"), (7, b"kafka")])
    assert await kept.record(0, 3) is None
    kept.close()
