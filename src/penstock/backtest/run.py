"""Runs a backtest: finds the routes in force and the past events, and counts with Spark what Triggers would match."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from penstock.backtest.past_events import AllEvents, KafkaEvents, PastEvents, Question, TableEvents
from penstock.backtest.report import BacktestReport, Place, SampleEvent, Tally, TriggerResult, Window, results_of
from penstock.backtest.trials import Trial
from penstock.contract import topics
from penstock.contract.snapshot import Snapshot
from penstock.filters.parse import parse
from penstock.filters.walk import attributes_asked
from penstock.history.reader.snapshot import starts_of
from penstock.history.reader.tables import location, read_table
from penstock.history.schema.columns import EVENTS, HistoryProblem
from penstock.kafka.ranges import RangeReader
from penstock.kafka.table import SnapshotFollower
from penstock.kafka.topic_ends import KafkaAway
from penstock.router.plan.matching import SESSION, matching
from penstock.router.plan.route_index import index_routes
from penstock.runtime.errors import UserError
from penstock.settings import Settings

HOUR_SECONDS = 3600


def count(events: PastEvents, trials: Sequence[Trial], window: Window) -> list[Tally]:
    """Tries all Triggers in one pass over the events."""
    routes = [route for number, trial in enumerate(trials) for route in trial.routes(number)]
    table = index_routes(routes)
    if table.refused:
        raise UserError(f"The Trigger cannot be compiled: {next(iter(table.refused.values()))}", exit_code=2)
    targets = tuple(sorted({trial.target for trial in trials}))
    asked = (attributes_asked(parse(route.attributes, route.filters)) for route in routes)
    records = events.records(Question(window, targets, frozenset().union(*asked)))
    for name, value in SESSION.items():
        records.sparkSession.conf.set(name, value)
    found = matching(records, table).where(F.col("event") & F.col("target").isin(*targets))
    seconds = F.unix_seconds("timestamp")
    # Without any present Trigger there is nothing to be compared.
    fates = _fates(F.col("uids")) if any(trial.present for trial in trials) else F.col("uids")
    fared = found.select(
        (seconds - seconds % HOUR_SECONDS).alias("hour"),
        *("target", "partition", "offset"),
        F.explode(F.concat(F.array(F.lit("")), fates)).alias("fate"),
    )
    counted = fared.groupBy("hour", "target", "partition", "fate").agg(
        F.count("*").alias("count"), F.min("offset").alias("oldest"), F.max("offset").alias("newest")
    )
    # Seconds, because Python's idea of a time zone need not be Spark's.
    return [Tally(**{**row.asDict(), "hour": datetime.fromtimestamp(row["hour"], UTC)}) for row in counted.collect()]


def _fates(uids: Column) -> Column:
    def fate(uid: Column) -> Column:
        other = F.when(F.startswith(uid, F.lit("c")), F.lit("p")).otherwise(F.lit("c"))
        both = F.array_contains(uids, F.concat(other, F.substring(uid, 2, 10)))
        return F.when(both, F.concat(uid, F.lit("="))).otherwise(uid)

    return F.transform(uids, fate)


SAMPLES = 5
"""Events that are shown of those that were added, and of those that were removed."""

MOST_SAMPLES = 50
"""Events that are looked up in all, however many Triggers are tried."""


def backtest(events: PastEvents, trials: Sequence[Trial], window: Window, samples: int = SAMPLES) -> BacktestReport:
    """What the Triggers would have received, and what the current ones of the same name did. Raises UserError."""
    began = time.monotonic()
    tallies = count(events, trials, window)
    results = results_of(trials, tallies, samples)
    places = dict.fromkeys(place for result in results for place in (*result.added, *result.removed))
    found = events.samples(tuple(places)[:MOST_SAMPLES])
    return BacktestReport(
        tuple(_with_samples(result, found) for result in results),
        window,
        sum(tally.count for tally in tallies if not tally.fate),
        time.monotonic() - began,
    )


def _with_samples(result: TriggerResult, found: dict[Place, SampleEvent]) -> TriggerResult:
    wanted = (*result.added, *result.removed)
    return replace(result, samples={place: found[place] for place in wanted if place in found})


KAFKA_SECONDS = 15.0


def routes_in_force(settings: Settings) -> Snapshot:
    """The published Brokers and Triggers. Raises UserError if Kafka is unreachable."""
    follower = SnapshotFollower(settings, lambda snapshot: None, lambda error: None)
    follower.start()
    try:
        if not follower.caught_up.wait(KAFKA_SECONDS):
            raise UserError(f"Kafka at {settings.bootstrap} is unreachable.")
    finally:
        follower.stop()
    return follower.snapshot


def open_events(spark: SparkSession, settings: Settings) -> PastEvents:
    """All stored events. Raises UserError if Kafka is unreachable or the table cannot be read."""
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
        raise UserError(f"Kafka at {settings.bootstrap} is unreachable: {error}") from error
    except HistoryProblem as error:
        raise UserError(error.what, error.remedy) from error
    if table is None or not table.files:
        return KafkaEvents(spark, settings)
    rest = KafkaEvents(spark, settings, starts_of(kept, table.positions))
    return AllEvents(TableEvents(spark, table.files), rest)
