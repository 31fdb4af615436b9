"""Where past events come from: Kafka, as far as it has them, and the table before that.

They come with no more than the filters ask for: of a table of columns little is read then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Protocol

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.backtest.report import Place, SampleEvent, Window
from penstock.contract import records as headers
from penstock.contract import topics
from penstock.events.event import REQUIRED
from penstock.history.schema.columns import ATTRIBUTES
from penstock.kafka.clients import spark_options, topic_name
from penstock.router.plan.matching import stored_headers
from penstock.router.plan.route_index import header_of
from penstock.settings import Settings

SAMPLED = ("id", "type", "source", "subject")


@dataclass(frozen=True)
class Question:
    """Which events, and what of them."""

    window: Window
    targets: tuple[str, ...]
    attributes: frozenset[str]
    """Attributes that filters use, besides those of every event."""

    @property
    def names(self) -> list[str]:
        """All attributes that have to be there."""
        return sorted({*REQUIRED, "datacontenttype", *self.attributes})


class PastEvents(Protocol):
    """Events of the past."""

    def records(self, question: Question) -> DataFrame:
        """`partition`, `offset`, `timestamp`, `value` and `stored`, as `matching()` takes them."""

    def samples(self, places: Sequence[Place]) -> dict[Place, SampleEvent]:
        """Single events; those that are gone are left out."""


class KafkaEvents:
    """What Kafka has, or only what it has from given offsets on, one for each partition."""

    def __init__(self, spark: SparkSession, settings: Settings, starts: Mapping[int, int] | None = None) -> None:
        self._spark, self._settings, self._starts = spark, settings, starts
        self._topic = topic_name(settings, topics.EVENTS)

    def records(self, question: Question) -> DataFrame:
        """The records of that time.

        Clocks differ and are set: behind the first record of a time there may be older ones, and behind the first that
        is too new some that are not. So Kafka says where to begin, and each record whether it belongs to that time.
        """
        if self._starts is None:
            # There may be nothing that new.
            begins = {"startingOffsetsByTimestampStrategy": "latest"}
            begins["startingTimestamp"] = str(_milliseconds(question.window.since))
        else:
            starts = json.dumps({self._topic: {str(number): at for number, at in self._starts.items()}})
            begins = {"startingOffsets": starts}
        found = self._read(**begins, endingOffsets="latest").where(_within(F.col("timestamp"), question.window))
        return found.select("partition", "offset", "timestamp", "value", stored_headers().alias("stored"))

    def samples(self, places: Sequence[Place]) -> dict[Place, SampleEvent]:
        """Single events."""
        if not places:
            return {}
        found = reduce(DataFrame.union, (self._one(*place) for place in places)).withColumn("stored", stored_headers())
        texts = [F.try_element_at("stored", F.lit(header_of(name))).cast("string").alias(name) for name in SAMPLED]
        rows = found.select("partition", "offset", F.unix_micros("timestamp").alias("at"), *texts).collect()
        return _samples(rows)

    def _one(self, partition: int, offset: int) -> DataFrame:
        begin, end = (json.dumps({self._topic: {str(partition): at}}) for at in (offset, offset + 1))
        only = json.dumps({self._topic: [partition]})
        return self._read(startingOffsets=begin, endingOffsets=end, assign=only)

    def _read(self, **options: str) -> DataFrame:
        which = {} if "assign" in options else {"subscribe": self._topic}
        return (
            self._spark.read.format("kafka")
            .options(**spark_options(self._settings))
            .option("groupIdPrefix", f"{self._settings.topic_prefix}-backtest")
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "false")
            .option("kafka.max.partition.fetch.bytes", str(self._settings.max_record_bytes))
            .options(**which, **options)
            .load()
        )


class TableEvents:
    """What the table `events` of the history has, by its files."""

    def __init__(self, spark: SparkSession, files: Sequence[str]) -> None:
        self._spark, self._files = spark, files

    def records(self, question: Question) -> DataFrame:
        """The rows of that time, with the attributes that are asked for."""
        table = self._table(question.window)
        stored = {headers.TARGET: F.col("target")}
        stored |= {header_of(name): _attribute(name) for name in question.names}
        pairs = [part for name, text in stored.items() for part in (F.lit(name), text.cast("binary"))]
        asked = _within(F.col("arrival"), question.window) & F.col("target").isin(*question.targets)
        return table.where(asked).select(
            "partition",
            "offset",
            F.col("arrival").alias("timestamp"),
            F.col("data").alias("value"),
            F.create_map(*pairs).alias("stored"),
        )

    def samples(self, places: Sequence[Place]) -> dict[Place, SampleEvent]:
        """Single events."""
        if not places:
            return {}
        wanted = [(F.col("partition") == partition) & (F.col("offset") == offset) for partition, offset in places]
        found = self._table().where(reduce(or_, wanted))
        return _samples(found.select("partition", "offset", F.unix_micros("arrival").alias("at"), *SAMPLED).collect())

    def _table(self, window: Window | None = None) -> DataFrame:
        files = [name for name in self._files if window is None or _may_have(name, window)]
        # One file at least, for its columns.
        return self._spark.read.parquet(*(files or self._files[:1]))


class AllEvents:
    """The table and, from where it ends, Kafka."""

    def __init__(self, table: TableEvents, rest: KafkaEvents) -> None:
        self._parts: tuple[PastEvents, PastEvents] = (table, rest)

    def records(self, question: Question) -> DataFrame:
        """From both."""
        table, rest = (part.records(question) for part in self._parts)
        return table.unionByName(rest)

    def samples(self, places: Sequence[Place]) -> dict[Place, SampleEvent]:
        """From the table, the rest from Kafka."""
        table, rest = self._parts
        found = table.samples(places)
        return found | rest.samples([place for place in places if place not in found])


def _attribute(name: str) -> Column:
    has_a_column = name in ATTRIBUTES or name == "datacontenttype"
    return F.col(f"`{name}`") if has_a_column else F.try_element_at("extensions", F.lit(name))


def _within(moment: Column, window: Window) -> Column:
    milliseconds = F.unix_millis(moment)
    return (milliseconds >= _milliseconds(window.since)) & (milliseconds < _milliseconds(window.until))


def _may_have(file: str, window: Window) -> bool:
    """Whether a file of the table may have events of that time, by the day in its path."""
    _, found, day = file.rpartition("day=")
    return not found or f"{window.since:%Y-%m-%d}" <= day[:10] <= f"{window.until:%Y-%m-%d}"


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _samples(rows: Iterable[Row]) -> dict[Place, SampleEvent]:
    return {
        (row["partition"], row["offset"]): SampleEvent(
            arrival=datetime.fromtimestamp(row["at"] / 1_000_000, UTC),
            **{name: row[name] for name in ("partition", "offset", *SAMPLED)},
        )
        for row in rows
        if row["id"] is not None
    }
