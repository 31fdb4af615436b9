"""One generation's Structured Streaming query: `penstock.events` through `route()` into `penstock.matched`.

Spark insists on a checkpoint folder but where routing stands is known from `penstock.matched`, so every query gets a
fresh folder that goes with it. A Real-Time Mode batch runs until its time is up, and each new batch costs a pause,
hence the long interval.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import structlog
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core.status import SparkStageInfo, StatusTracker
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.contract import topics
from penstock.kafka.clients import spark_options, spark_producer_options, topic_name
from penstock.router.generations.generations import CannotStop
from penstock.router.generations.positions import StartOffsets
from penstock.router.plan.matching import SESSION
from penstock.router.plan.route_index import RouteTable
from penstock.router.plan.routing import route
from penstock.router.watchdogs import KilledTasks
from penstock.settings import Settings

log = structlog.get_logger()

BATCH_INTERVAL = "1 hour"
FETCH_WAIT_MS = 2000
"""How long Kafka holds a fetch open when there is nothing to read: longer costs less when idle, and delays nothing."""
BATCH_BYTES = 256 * 1024
"""Size of the batches that are written to a partition."""

NOISY_LOGGERS = (
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
)
"""They print a page of errors for every task of a query that is stopped in order; others log the real failures."""

STOP_SECONDS = 10.0
"""How long the tasks of a query may take to end."""

NEWEST_JOBS = 16
"""More than a batch has, with those that broadcast the routes."""

FOLDER_PREFIX = "generation-"


class Query:
    """A running query and its folder."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, folder: Path, killed: KilledTasks | None) -> None:
        self._jobs: StatusTracker = spark.sparkContext.statusTracker()
        self._query, self._folder, self._killed = query, folder, killed

    def alive(self) -> bool:
        """Whether it still runs, with every task at its first attempt.

        Spark would run a task that failed or was killed again from the beginning of the long batch, so that new events
        wait behind all the old ones. A new query continues where that task was.
        """
        try:
            return bool(self._query.isActive) and not self._failed_tasks() and not self._was_killed()
        except (Py4JError, OSError):
            return False

    def _was_killed(self) -> bool:
        return self._killed is not None and self._killed.found()

    def _failed_tasks(self) -> int:
        return sum(stage.numFailedTasks for stage in self._stages())

    def _stages(self) -> Iterator[SparkStageInfo]:
        """Those of the newest jobs. Micro-batches leave a thousand behind, and asking about each would take seconds."""
        for job in sorted(self._jobs.getJobIdsForGroup(str(self._query.runId)))[-NEWEST_JOBS:]:
            info = self._jobs.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                if (found := self._jobs.getStageInfo(stage)) is not None:
                    yield found

    def reason(self) -> str:
        """Why it ended, for the log."""
        try:
            error: StreamingQueryException | None = self._query.exception()
        except (Py4JError, OSError) as gone:
            return f"Spark is gone: {gone}"
        if error is not None:
            return str(error).splitlines()[0]
        if not self._query.isActive:
            return "it was stopped"
        return "a task was killed" if self._was_killed() else "a task failed; Spark's log says why"

    def stop(self) -> None:
        """Ends the query with its tasks and removes its folder; its successor reads again what it had not written.

        Spark asks tasks to end and does not wait for them. One that hangs and recovers later would still write.
        """
        try:
            self._query.stop()
            self._await_tasks()
        except (Py4JJavaError, PySparkException) as error:
            raise CannotStop(f"the query does not end: {str(error).splitlines()[0]}") from error
        except (Py4JError, OSError) as error:
            log.warning("the query cannot be stopped: Spark is gone", error=str(error))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _await_tasks(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        while running := sum(stage.numActiveTasks for stage in self._stages()):
            if time.monotonic() > deadline:
                raise CannotStop(f"{running} tasks of the query did not end within {STOP_SECONDS:g} s")
            time.sleep(0.02)


def launch(spark: SparkSession, settings: Settings, table: RouteTable, generation: int, start: StartOffsets) -> Query:
    """Starts the query of a generation from explicit offsets."""
    parent = settings.data_dir / "spark"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{generation}-", dir=parent)).resolve()
    _prepare(spark)
    try:
        matched = route(read_events(spark, settings, start), table, generation, settings.topic_prefix)
        query = _paced(_write_matched(matched, settings, folder), settings.router_mode).start()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    killed = KilledTasks(spark, str(query.runId)) if settings.router_mode == "realtime" else None
    return Query(spark, query, folder, killed)


def _prepare(spark: SparkSession) -> None:
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    for logger in NOISY_LOGGERS:
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.OFF)


def sweep(settings: Settings) -> None:
    """Removes the folders that queries of a killed process left behind."""
    for folder in (settings.data_dir / "spark").glob(f"{FOLDER_PREFIX}*"):
        shutil.rmtree(folder, ignore_errors=True)


def read_events(spark: SparkSession, settings: Settings, start: StartOffsets) -> DataFrame:
    """The stream of `penstock.events` from these offsets on."""
    topic = topic_name(settings, topics.EVENTS)
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(settings))
        .option("groupIdPrefix", f"{settings.topic_prefix}-router")
        .option("subscribe", topic)
        .option("startingOffsets", start.as_json(topic))
        .option("includeHeaders", "true")
        # Events that retention removed before they were routed end the query; the next start reports them as lost.
        .option("failOnDataLoss", "true")
        .option("kafka.max.partition.fetch.bytes", str(settings.max_record_bytes))
        .option("kafka.fetch.max.wait.ms", str(FETCH_WAIT_MS))
        .option("kafka.reconnect.backoff.max.ms", "1000")
        .load()
    )


def _write_matched(matched: DataFrame, settings: Settings, folder: Path) -> DataStreamWriter:
    return (
        matched.writeStream.format("kafka")
        .options(**spark_producer_options(settings))
        .option("checkpointLocation", folder.as_uri())
        # What is routed while a batch is under way becomes the next one: no waiting when there is little, few requests
        # when there is much.
        .option("kafka.linger.ms", "0")
        .option("kafka.batch.size", str(BATCH_BYTES))
        .option("kafka.max.request.size", str(settings.max_matched_bytes))
        .option("kafka.reconnect.backoff.max.ms", "1000")
    )


def _paced(writer: DataStreamWriter, mode: Literal["realtime", "microbatch"]) -> DataStreamWriter:
    if mode == "realtime":
        paced: DataStreamWriter = writer.outputMode("update").trigger(realTime=BATCH_INTERVAL)  # type: ignore[call-overload]
        return paced
    return writer.outputMode("append").trigger(processingTime="0 seconds")
