"""Noticing tasks that were killed: by hand, or by a cluster that takes an executor back.

A killed task does not count as failed, and Spark runs it again from the beginning of the long batch, so that new
events wait behind all the old ones. To see it takes a few calls to the JVM, hence not at every look at the query.
Micro-batches are short: there is nothing to notice.
"""

from __future__ import annotations

import time
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

EVERY_SECONDS = 2.0


class KilledTasks:
    """Looks at the tasks of one running query."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._run = run
        self._jobs = spark.sparkContext.statusTracker()
        self._stages: Any = spark.sparkContext._jsc.sc().statusStore()
        self._next = 0.0
        self._found = False

    def found(self) -> bool:
        """Whether a task has been killed, as of the last look."""
        now = time.monotonic()
        if not self._found and now >= self._next:
            self._next = now + EVERY_SECONDS
            self._found = self._look()
        return self._found

    def _look(self) -> bool:
        """At the newest job: the batch that is under way."""
        try:
            jobs = self._jobs.getJobIdsForGroup(self._run)
            info = self._jobs.getJobInfo(max(jobs)) if jobs else None
            return info is not None and any(self._stages.lastStageAttempt(n).numKilledTasks() for n in info.stageIds)
        except (Py4JError, OSError):
            return False  # a stage that is not known yet, or Spark is gone, which the look at the query itself reports
