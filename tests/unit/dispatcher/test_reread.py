"""Reading again: a chunk holds everything that was written, whatever the consumer met while it read ahead."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError

from penstock.contract import records
from penstock.dispatcher.matched_record import DECODER, Matched
from penstock.kafka.random_reader import Chunk, _Reading, _Request

RAW = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), (records.ROUTES, b"r")]


def record(offset: int) -> Any:
    return SimpleNamespace(
        error=lambda: None,
        offset=lambda: offset,
        partition=lambda: 0,
        timestamp=lambda: (1, 1000),
        headers=lambda: [*RAW, (records.ORIGIN, str(offset).encode())],
        value=lambda: b"",
        key=lambda: None,
    )


END: Any = SimpleNamespace(error=lambda: KafkaError(KafkaError._PARTITION_EOF))


class ReadAhead:
    """A consumer with what it has fetched in advance, the end of the partition as it was then included."""

    def __init__(self, *queued: Any, high: int, low: int = 0) -> None:
        self._queued, self._low, self._high = list(queued), low, high

    def poll(self, _: float) -> Any:
        return self._queued.pop(0) if self._queued else None

    def consume(self, count: int, _: float) -> list[Any]:
        taken, self._queued = self._queued[:count], self._queued[count:]
        return taken

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return self._low, self._high


def chunk_of(consumer: ReadAhead, begin: int, end: int) -> Chunk[Matched]:
    reader: Any = _Reading.__new__(_Reading)
    reader._stop, reader._topic, reader._decoder = threading.Event(), "matched", DECODER
    chunk, _ = reader._read(consumer, _Request(0, begin, end, None))  # type: ignore[arg-type]  # nobody waits for it
    assert chunk.end == end
    return chunk  # type: ignore[no-any-return]


def read(consumer: ReadAhead, end: int) -> list[int]:
    return [found.offset for found in chunk_of(consumer, 0, end).records]


def test_an_end_met_while_reading_ahead_does_not_end_the_chunk() -> None:
    assert read(ReadAhead(record(0), record(1), END, record(2), record(3), high=4), 4) == [0, 1, 2, 3]


def test_an_end_as_the_first_thing_does_not_end_the_chunk() -> None:
    assert read(ReadAhead(END, record(0), record(1), high=2), 2) == [0, 1]


def test_the_real_end_of_the_partition_ends_the_chunk() -> None:
    assert read(ReadAhead(record(0), END, high=1), 3) == [0]


def test_what_lies_beyond_the_end_of_a_log_that_was_cut_off_is_not_sought_from_its_beginning() -> None:
    """Kafka sends a consumer whose offset is out of range back to the first record."""
    chunk = chunk_of(ReadAhead(record(0), record(1), record(2), high=3), 50, 51)
    assert (chunk.begin, chunk.records) == (50, [])
    chunk = chunk_of(ReadAhead(END, high=0), 50, 51)
    assert (chunk.begin, chunk.records) == (50, [])


def test_a_log_that_retention_has_emptied_is_not_waited_for() -> None:
    chunk = chunk_of(ReadAhead(END, high=80, low=80), 50, 60)
    assert (chunk.begin, chunk.records, chunk.log_end) == (80, [], None)


def test_where_the_log_ended_is_known_where_that_is_within_the_chunk() -> None:
    assert chunk_of(ReadAhead(record(0), END, high=1), 0, 3).log_end == 1
    assert chunk_of(ReadAhead(END, high=2), 2, 3).log_end == 2
    assert chunk_of(ReadAhead(record(0), record(1), high=2), 0, 2).log_end is None
