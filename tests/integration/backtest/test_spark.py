"""Backtests on Spark: over records as they are, and over those that Kafka has."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from penstock.backtest.past_events import AllEvents, KafkaEvents, Question, TableEvents
from penstock.backtest.report import EventCounts, Place, SampleEvent, Window
from penstock.backtest.run import backtest
from penstock.backtest.trials import Trial, trials_of
from penstock.contract import topics
from penstock.contract.routes import Route, Target
from penstock.contract.snapshot import Snapshot
from penstock.history.schema.frames import SESSION, event_rows
from penstock.kafka.ranges import RangeReader
from penstock.settings import Settings
from tests.running import kafka_access

RECORDS = (
    "partition int, offset long, key binary, value binary, headers array<struct<key:string,value:binary>>, "
    "timestamp timestamp"
)
HOUR = datetime(2026, 11, 17, 11, tzinfo=UTC)
WINDOW = Window(HOUR, HOUR + timedelta(hours=3))


class Written:
    """Records that a test made up."""

    def __init__(self, records: DataFrame) -> None:
        self._records = records

    def records(self, question: Question) -> DataFrame:
        return self._records

    def samples(self, places: Sequence[Place]) -> dict[Place, SampleEvent]:
        return {place: SampleEvent(f"{place}", "order", "/s", None, HOUR, *place) for place in places}


def headers(kind: str, number: int, target: str = "b1") -> list[tuple[str, str | bytes | None]]:
    attributes = {"specversion": "1.0", "id": f"e{number}", "source": "/s", "type": kind}
    return [
        *((f"ce_{name}", value.encode()) for name, value in attributes.items()),
        ("content-type", b"application/json"),
        ("penstock_target", target.encode()),
    ]


def trials(present: dict[str, Any], *candidates: list[dict[str, Any]], target: str = "b1") -> tuple[Trial, ...]:
    snapshot = Snapshot(
        version=1,
        targets={target: Target(target, "Broker", "default", "shop")},
        routes={"u": Route("u", "Trigger", "default", "t0", target, attributes=present, start=(0, 2))},
    )
    documents = [
        {"kind": "Trigger", "metadata": {"name": f"t{number}"}, "spec": {"broker": "shop", "filters": filters}}
        for number, filters in enumerate(candidates)
    ]
    return trials_of(documents, snapshot, Settings())


def test_what_would_be_added_and_removed_is_counted_by_hour_and_shown(spark: SparkSession) -> None:
    rows = [
        (number % 2, number // 2, None, json.dumps({"total": number}).encode(), headers(kind, number, target), at)
        for number, (kind, target, at) in enumerate(
            [
                ("order", "b1", HOUR),  # partition 0
                ("order", "b1", HOUR),  # partition 1, before the present Trigger's start there
                ("other", "b1", HOUR + timedelta(minutes=59)),
                ("order", "b1", HOUR + timedelta(minutes=60)),  # likewise
                ("order", "b1", HOUR + timedelta(minutes=61)),
                ("order", "b1", HOUR + timedelta(minutes=62)),
                ("order", "elsewhere", HOUR),
            ]
        )
    ]
    events = Written(spark.createDataFrame(rows, RECORDS))
    tried = trials({"type": "order"}, [{"data": {"total": {"gte": 2}}}], [{"exact": {"type": "other"}}])
    report = backtest(events, tried, WINDOW)
    changed, new = report.results
    assert report.events == 6
    # 0, 4 and 5 are what the present one gets; 2, 3, 4 and 5 would be got.
    assert changed.hours == {HOUR: EventCounts(3, 1, 1, 0), HOUR + timedelta(hours=1): EventCounts(3, 1, 0, 2)}
    assert (sorted(changed.added), changed.removed) == ([(0, 1), (1, 1)], ((0, 0),))
    assert changed.samples.keys() == {(0, 1), (1, 1), (0, 0)}
    assert (new.total.matched, new.total.present, new.trial.present) == (1, 0, None)


def test_nothing_at_all_is_an_answer_too(spark: SparkSession) -> None:
    (result,) = backtest(
        Written(spark.createDataFrame([], RECORDS)), trials({}, [{"exact": {"type": "a"}}]), WINDOW
    ).results
    assert (result.hours, result.total, result.samples) == ({}, EventCounts(), {})


@pytest.fixture
def target(kafka: Settings) -> str:
    """A Broker that no other test sends to, with an event before the window and two in it, all behind a newer one."""
    name, now = f"backtest-{time.time_ns()}", int(time.time() * 1000)
    producer = Producer(kafka_access(kafka))
    producer.produce(topics.EVENTS, b"{}", headers=headers("order", 99, "elsewhere"), timestamp=now, partition=0)
    for number, age in enumerate((7_200_000, 60_000, 30_000)):
        producer.produce(
            topics.EVENTS, b"{}", headers=headers("order", number, name), timestamp=now - age, partition=number
        )
    assert producer.flush(60) == 0
    return name


def test_events_that_kafka_has_are_found_by_their_time(spark: SparkSession, kafka: Settings, target: str) -> None:
    now = datetime.now(UTC)
    events = KafkaEvents(spark, kafka)
    tried = trials({"type": "none"}, [{"exact": {"type": "order"}}], target=target)
    (result,) = backtest(events, tried, Window(now - timedelta(hours=1), now)).results
    assert (result.total.events, result.total.added) == (2, 2)
    assert {result.samples[place].id for place in result.added} == {"e1", "e2"}
    (older,) = backtest(events, tried, Window(now - timedelta(hours=3), now - timedelta(minutes=90))).results
    assert (older.total.events, [older.samples[place].id for place in older.added]) == (1, ["e0"])
    (nothing,) = backtest(events, tried, Window(now, now + timedelta(hours=1))).results
    assert nothing.total.events == 0


def test_what_the_table_has_is_read_from_it_and_the_rest_from_kafka(
    spark: SparkSession, kafka: Settings, target: str, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    kept = [
        (0, 10**9, json.dumps({"a": 1}).encode(), headers("order", 10, target), now - timedelta(hours=5)),
        (1, 10**9, b"no json", [*headers("order", 11, target), ("ce_zone", b"north")], now - timedelta(hours=4)),
        (2, 10**9, b"{}", headers("order", 12, "elsewhere"), now - timedelta(hours=4)),
        (3, 10**9, b"{}", headers("order", 13, target), now - timedelta(days=40)),
    ]
    made = spark.createDataFrame([(p, o, None, value, *rest) for p, o, value, *rest in kept], RECORDS)
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    event_rows(made).write.partitionBy("day").parquet(str(tmp_path / "events"))
    files = [str(path) for path in (tmp_path / "events").rglob("*.parquet")]
    reader = RangeReader(kafka)
    starts = {
        number: kept.first if number == 2 else kept.end for number, kept in reader.retained(topics.EVENTS).items()
    }
    reader.close()
    table, rest = TableEvents(spark, files), KafkaEvents(spark, kafka, starts)
    filters: list[list[dict[str, Any]]] = [
        [{"data": {"a": 1}}],
        [{"exact": {"zone": "north"}}],
        [{"cesql": "EXISTS subject"}],
        [{"prefix": {"type": "o"}}],
    ]
    tried = trials({"type": "none"}, *filters, target=target)
    report = backtest(AllEvents(table, rest), tried, Window(now - timedelta(hours=6), now))
    assert [result.total.added for result in report.results] == [1, 1, 0, 3]
    assert [result.total.events for result in report.results] == [3] * 4
    every = report.results[3]
    assert {every.samples[place].id for place in every.added} == {"e10", "e11", "e2"}
