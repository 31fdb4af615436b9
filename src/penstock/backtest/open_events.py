"""Finding the past of an installation: the routes in force, the table, and what Kafka has beyond it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.backtest.past_events import AllEvents, KafkaEvents, PastEvents, TableEvents
from penstock.contract import topics
from penstock.contract.snapshot import Snapshot
from penstock.engine.problem import Problem
from penstock.history.reader.rest import starts_of
from penstock.history.reader.tables import location, read_table
from penstock.history.schema.columns import EVENTS
from penstock.history.schema.problem import HistoryProblem
from penstock.kafka.ranges import RangeReader
from penstock.kafka.table import SnapshotFollower
from penstock.kafka.topic_ends import KafkaAway
from penstock.settings import Settings

KAFKA_SECONDS = 15.0


def routes_in_force(settings: Settings) -> Snapshot:
    """Brokers and Triggers as the data plane knows them. Raises Problem where Kafka does not answer."""
    follower = SnapshotFollower(settings, lambda snapshot: None, lambda error: None)
    follower.start()
    try:
        if not follower.caught_up.wait(KAFKA_SECONDS):
            raise Problem(f"Kafka does not answer at {settings.bootstrap}.")
    finally:
        follower.stop()
    return follower.snapshot


def open_events(spark: SparkSession, settings: Settings) -> PastEvents:
    """All events that there are. Raises Problem where Kafka does not answer, or the table cannot be read."""
    try:
        reader = RangeReader(settings)
        try:
            kept = reader.retained(topics.EVENTS)
        finally:
            reader.close()
        place = location(settings.history_root, EVENTS)
        written = "://" in place or Path(place, "_delta_log").is_dir()
        table = read_table(settings, EVENTS, len(kept)) if written else None
    except KafkaAway as error:
        raise Problem(f"Kafka does not answer at {settings.bootstrap}: {error}") from error
    except HistoryProblem as error:
        raise Problem(error.what, error.remedy) from error
    if table is None or not table.files:
        return KafkaEvents(spark, settings)
    rest = KafkaEvents(spark, settings, starts_of(kept, table.positions))
    return AllEvents(TableEvents(spark, table.files), rest)
