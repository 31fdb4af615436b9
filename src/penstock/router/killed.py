"""Noticing tasks that were killed: by hand, or by a cluster that takes an executor back.

A killed task does not count as failed, and Spark runs it again from the beginning of the long batch, so that new
events wait behind all the old ones. To see it takes a few calls to the JVM, hence not at every look at the query.
Micro-batches are short: there is nothing to notice.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

EVERY_SECONDS = 2.0


class KilledTasks:
    """Looks at the tasks of the running queries."""

    def __init__(self, spark: SparkSession) -> None:
        self._streams = spark.streams
        self._jobs = spark.sparkContext.statusTracker()
        self._stages: Any = spark.sparkContext._jsc.sc().statusStore()
        self._next = 0.0

    def found(self, now: float) -> bool:
        """Whether a task of a running query has been killed; False until it is time for another look."""
        if now < self._next:
            return False
        self._next = now + EVERY_SECONDS
        try:
            return any(self._killed_in(str(query.runId)) for query in self._streams.active)
        except (Py4JError, OSError):
            return False  # Spark is gone, which the look at the query itself reports

    def _killed_in(self, run: str) -> bool:
        """In the newest job: the batch that is under way."""
        jobs = self._jobs.getJobIdsForGroup(run)
        info = self._jobs.getJobInfo(max(jobs)) if jobs else None
        return info is not None and any(self._stages.lastStageAttempt(n).numKilledTasks() for n in info.stageIds)
