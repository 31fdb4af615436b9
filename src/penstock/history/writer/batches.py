"""One batch: from the table's own positions to where Kafka ends now, written and committed together.

The same for a process that comes and goes and for one that stays: whoever calls `write_batch` again goes on where the
table says that it has got to. Killed at any moment, the files that it wrote belong to no version of the table and are
removed some day; the next batch writes their records again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from penstock.history.schema.columns import Table, TableName
from penstock.history.writer.delta import Conflict, DeltaTable
from penstock.history.writer.ranges import Next, next_ranges, offsets_json
from penstock.log.clients import topic_name
from penstock.log.connection import spark_options
from penstock.log.topic_ends import Retained
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_RECORDS = 500_000
"""Records of one commit: what a kill can make somebody write again."""
FILES = 2
"""Files of one commit and day: each task reads several partitions, so that many partitions make no small files."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Written:
    """What a batch did."""

    table: TableName
    records: int
    """Offsets that it covered; markers among them have no rows."""
    positions: dict[int, int]
    rest: int
    """Records that were there already and remain for the next batch."""
    lost: int
    seconds: float


class Batches:
    """Writes one table, batch by batch."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        table: Table,
        *,
        most: int = MOST_RECORDS,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark, self._settings, self._table, self._most = spark, settings, table, most
        self._before_commit = before_commit
        self._delta = DeltaTable(spark, f"{settings.history_root}/{table.name}", table)

    def ensure(self) -> None:
        """Makes the table. Raises HistoryProblem where it is not for this version."""
        self._delta.ensure()

    def write(self, retained: Mapping[int, Retained]) -> Written | None:
        """Writes what the table lacks of what Kafka holds; None where there is nothing, or another has written it."""
        begun = time.monotonic()
        ids = {partition: self._table.position(partition) for partition in retained}
        commit = self._delta.begin(ids.values())
        known = {partition: commit.positions[one] for partition, one in ids.items()}
        wanted = next_ranges(retained, known, self._most)
        self._tell_loss(wanted)
        if not wanted.ranges:
            return None
        commit.write(self._rows(wanted))
        self._before_commit()
        positions = {partition: one.end for partition, one in wanted.ranges.items()}
        try:
            commit.finish({ids[partition]: end for partition, end in positions.items()})
        except Conflict as error:
            log.warning(
                "another writer was faster; nothing was written twice", table=self._table.name, error=str(error)
            )
            return None
        known_now = {partition: end for partition, end in known.items() if end is not None} | positions
        lost = sum(one.end - one.first for one in wanted.lost)
        seconds = time.monotonic() - begun
        return Written(self._table.name, wanted.records, known_now, wanted.rest, lost, seconds)

    def _rows(self, wanted: Next) -> DataFrame:
        from penstock.history.schema import frames

        records = read_ranges(self._spark, self._settings, self._table.topic, wanted)
        rows = frames.event_rows(records) if self._table.name == "events" else frames.attempt_rows(records)
        return rows.coalesce(FILES)

    def _tell_loss(self, wanted: Next) -> None:
        for one in wanted.lost:
            log.error(
                "records were removed from Kafka before they were written to the history",
                table=self._table.name,
                partition=one.partition,
                first=one.first,
                last=one.end - 1,
            )


def read_ranges(spark: SparkSession, settings: Settings, topic: str, wanted: Next) -> DataFrame:
    """The records of a topic between offsets, as Spark's Kafka source gives them."""
    name = topic_name(settings, topic)
    return (
        spark.read.format("kafka")
        .options(**spark_options(settings))
        .option("groupIdPrefix", f"{settings.topic_prefix}-history")
        .option("subscribe", name)
        .option("startingOffsets", json.dumps(offsets_json(name, wanted.ranges, end=False)))
        .option("endingOffsets", json.dumps(offsets_json(name, wanted.ranges, end=True)))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.partition.fetch.bytes", str(max(settings.max_record_bytes, 2**20)))
        .load()
    )
