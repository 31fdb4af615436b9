"""Replays of what Kafka has forgotten: the table fills in, and nothing comes twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from penstock.contract.routes import Replay
from penstock.dispatcher.matched_record import Matched, of_event
from penstock.dispatcher.replay.archive import EventArchive
from penstock.history.reader.table_events import GivenUpBy, Stretch
from penstock.history.schema.columns import HistoryProblem
from penstock.kafka.random_reader import Chunk
from penstock.kafka.ranges import LogRecord


@dataclass
class Kafka:
    """Has the events from 6 to 9."""

    first: int = 6
    reads: int = 0

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        self.reads += 1
        await asyncio.sleep(0)
        found = [of_event(partition, offset, 0, (), b"kafka") for offset in range(max(begin, self.first), min(end, 10))]
        return Chunk(max(begin, self.first), end, found, 10 if end > 10 else None)

    async def record(self, partition: int, offset: int) -> Matched | None:
        await asyncio.sleep(0)
        return of_event(partition, offset, 0, (), b"kafka") if self.first <= offset < 10 else None


@dataclass
class Table:
    """Has the events of partition 0 from 2 to 7; 4 was a marker."""

    stretches: tuple[Stretch, ...] = (Stretch(2, 8),)
    written_since: tuple[Stretch, ...] = ()
    """What is found when the newest table is asked for."""
    looks: int = 0

    def stretch(self, partition: int, offset: int, *, newest: bool = False) -> Stretch | None:
        self.looks += newest
        if newest and self.written_since:
            self.stretches = self.written_since
        found = self.stretches if partition == 0 else ()
        return next((Stretch(max(offset, one.first), one.end) for one in found if one.end > offset), None)

    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        there = [offset for offset in range(begin, end) if offset != 4]
        return [LogRecord(partition, offset, 5, None, [("ce_id", b"1")], b"table") for offset in there]

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        return {0: tuple(Stretch(max(one.first, int(since)), one.end) for one in self.stretches)}

    def given_up(self, partition: int, wanted: GivenUpBy) -> list[int]:
        return [3] if wanted == GivenUpBy("r", 1.0, 2.0, "why") else []


class Broken(Table):
    def read(self, partition: int, begin: int, end: int) -> list[LogRecord]:
        raise HistoryProblem("it is of a newer penstock")

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        raise OSError("the disk is gone")


def places(chunk: Chunk[Matched]) -> list[tuple[int, bytes | None]]:
    return [(record.origin, record.value) for record in chunk.records]


async def test_a_chunk_is_put_together() -> None:
    kept = EventArchive(Kafka(), Table())
    chunk = await kept.chunk(0, 3, 8)
    assert places(chunk) == [(3, b"table"), (5, b"table"), (6, b"kafka"), (7, b"kafka")]
    assert (chunk.begin, chunk.end) == (3, 8)
    kept.close()


async def test_what_nobody_has_any_more_is_known() -> None:
    kept = EventArchive(Kafka(), Table())
    assert (await kept.chunk(0, 0, 8)).begin == 2
    assert (await kept.chunk(0, 0, 1)).begin == 2
    assert (await kept.chunk(1, 0, 8)).begin == 6
    assert (await kept.chunk(1, 0, 3)).begin == 6
    kept.close()


async def test_what_the_table_lacks_in_the_middle_is_known() -> None:
    """The history was off for a while, or Kafka removed events before they were written."""
    kept = EventArchive(Kafka(), Table((Stretch(0, 2), Stretch(3, 5))))
    assert [(chunk.begin, chunk.end) for chunk in [await kept.chunk(0, begin, 9) for begin in (0, 2, 5)]] == [
        (0, 2),
        (3, 5),
        (6, 9),
    ]
    assert (await kept.chunk(0, 2, 3)).begin == 3
    kept.close()


async def test_what_was_written_since_the_table_was_looked_at_is_no_loss() -> None:
    table = Table((Stretch(2, 3),), written_since=(Stretch(2, 6),))
    kept = EventArchive(Kafka(), table)
    assert places(await kept.chunk(0, 2, 7)) == [(2, b"table"), (3, b"table"), (5, b"table"), (6, b"kafka")]
    await kept.chunk(0, 2, 7)
    assert table.looks == 1, "the table is opened anew only where something seems to be missing"
    kept.close()


async def test_the_end_of_kafka_is_passed_on() -> None:
    kept = EventArchive(Kafka(), Table())
    assert (await kept.chunk(0, 3, 20)).log_end == 10
    assert (await kept.chunk(0, 7, 20)).log_end == 10
    assert (await kept.chunk(0, 2, 4)).log_end is None
    kept.close()


async def test_kafka_is_not_asked_for_what_it_is_known_to_have_forgotten() -> None:
    kafka = Kafka()
    kept = EventArchive(kafka, Table())
    await kept.chunk(0, 2, 8)
    assert places(await kept.chunk(0, 2, 4)) == [(2, b"table"), (3, b"table")]
    assert kafka.reads == 1
    kept.close()


async def test_single_events_are_found_in_either() -> None:
    kept = EventArchive(Kafka(), Table())
    found = [await kept.record(0, offset) for offset in (1, 3, 4, 7)]
    assert [record and record.value for record in found] == [None, b"table", None, b"kafka"]
    assert await kept.given_up(0, Replay("Trigger", 1.0, 2.0, given_up_by="r", reason="why")) == [3]
    kept.close()


@pytest.mark.parametrize("table", [None, Broken()])
async def test_without_a_table_there_is_what_kafka_has(table: Table | None) -> None:
    kept = EventArchive(Kafka(), table)
    chunk = await kept.chunk(0, 3, 8)
    assert (chunk.begin, places(chunk)) == (6, [(6, b"kafka"), (7, b"kafka")])
    assert await kept.record(0, 3) is None
    kept.close()


async def test_what_lasts_is_what_is_young_enough_and_nothing_where_that_is_not_known() -> None:
    for table, expected in ((Table(), {0: (Stretch(5, 8),)}), (Broken(), {}), (None, {})):
        kept = EventArchive(Kafka(), table, strict=True)
        assert await kept.lasting(lambda: 5.0) == expected
        kept.close()


async def test_who_has_to_know_is_not_answered_without_the_table() -> None:
    kept = EventArchive(Kafka(), Broken(), strict=True)
    with pytest.raises(HistoryProblem, match="newer penstock"):
        await kept.chunk(0, 3, 8)
    with pytest.raises(HistoryProblem, match="newer penstock"):
        await kept.record(0, 3)
    assert places(await kept.chunk(0, 6, 8)) == [(6, b"kafka"), (7, b"kafka")]
    kept.close()
