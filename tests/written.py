"""Tables as the writer leaves them, made without Spark, and a Kafka that holds a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from penstock.contract import attempts
from penstock.contract.attempts import AttemptRecord
from penstock.history.reader.snapshot import ROW_OF
from penstock.history.schema import arrow
from penstock.history.schema.columns import DAY, VERSION, VERSION_ID, Table
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import KafkaAway, Retained

NOON = 1_794_916_800_000
"""2026-11-17T12:00:00Z in milliseconds."""


def write(root: Path, table: Table, records: Sequence[LogRecord], version: int = VERSION) -> None:
    """Appends records to a table, with the positions after them."""
    rows = [row for record in records if (row := ROW_OF[table.name](record)) is not None]
    ends = {record.partition: record.offset + 1 for record in records}
    transactions = [Transaction(table.position(partition), end) for partition, end in ends.items()]
    transactions.append(Transaction(VERSION_ID, version))
    write_deltalake(
        str(root / table.name),
        pa.Table.from_batches([arrow.batch_of(table, rows)]),
        mode="append",
        partition_by=[DAY],
        commit_properties=CommitProperties(app_transactions=transactions),
    )


def event(
    offset: int,
    ident: str,
    *,
    partition: int = 0,
    kind: str = "order",
    after_ms: int = 0,
    trace: str = "a" * 32,
    span: str = "b" * 16,
    data: bytes | None = b'{"a": 1}',
) -> LogRecord:
    """An event as a record of `penstock.events`."""
    headers = {"ce_id": ident, "ce_source": "/shop", "ce_type": kind, "ce_specversion": "1.0", "penstock_target": "t"}
    headers |= {"penstock_traceparent": f"00-{trace}-{span}-00", "ce_region": "eu"}
    pairs = [(name, value.encode()) for name, value in headers.items()]
    return LogRecord(partition, offset, NOON + after_ms, None, pairs, data)


def attempt(record: int, of: LogRecord, result: str = "delivered", **changes: object) -> LogRecord:
    """An attempt as a record of `penstock.attempts`, 100 ms after its event and 50 ms long."""
    told = {
        "at": of.at_ms / 1000 + 0.1,
        "route": "r1",
        "partition": of.partition,
        "origin": of.offset,
        "id": dict(of.headers)["ce_id"].decode(),  # type: ignore[union-attr]
        "source": "/shop",
        "type": "order",
        "stage": "subscriber",
        "attempt": 1,
        "destination": "http://sink/",
        "result": result,
        "latency": 0.05,
        "kind": "Trigger",
        "namespace": "default",
        "name": "orders",
        **changes,
    }
    return LogRecord(of.partition, record, of.at_ms, None, (), attempts.encode(AttemptRecord(**told)))  # type: ignore[arg-type]


class KeptRecords:
    """What Kafka holds, by topic: stands in for `RangeReader`."""

    def __init__(self, **topics: Sequence[LogRecord]) -> None:
        self.topics = {f"penstock.{name}": list(records) for name, records in topics.items()}

    def retained(self, topic: str) -> dict[int, Retained]:
        found: dict[int, Retained] = {}
        for record in self.topics.get(topic, ()):
            first = min(found.get(record.partition, Retained(record.offset, 0)).first, record.offset)
            found[record.partition] = Retained(first, record.offset + 1)
        return found

    def since(self, topic: str, at_ms: int) -> dict[int, int]:
        found = {partition: kept.end for partition, kept in self.retained(topic).items()}
        for record in reversed(self.topics.get(topic, ())):
            if record.at_ms >= at_ms:
                found[record.partition] = min(record.offset, found[record.partition])
        return found

    def read(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[LogRecord]]:
        yield [
            one
            for one in self.topics.get(topic, ())
            if starts.get(one.partition, 0) <= one.offset < ends.get(one.partition, 0)
        ]

    def close(self) -> None:
        self.topics = {}


class NoKafka(KeptRecords):
    """A Kafka that does not answer."""

    def retained(self, topic: str) -> dict[int, Retained]:
        raise KafkaAway("nobody answers")
