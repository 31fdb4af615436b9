"""The dispatcher as a service of the Spark application: one job whose tasks never end by themselves.

Spark restarts a task that dies. This service restarts a job that ends, with growing pauses, and one whose tasks send no
heartbeats: a task that hangs, or that never got a slot, is not a failure to Spark. Restarting the job ends what hangs;
against missing slots only more executors help, so these are reported. Tasks are stopped by a record in Kafka, so it
does not matter on which machine they run.
"""

from __future__ import annotations

import enum
import functools
import os
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from penstock.contract import generations, reports, topics
from penstock.contract.event_log import AnotherLog
from penstock.contract.reports import Ack, Heard
from penstock.dispatcher.worker import serve
from penstock.kafka import task_reports
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.clients import portable
from penstock.kafka.reports import StopRecord
from penstock.kafka.table import TableFollower
from penstock.observability.logs import describe
from penstock.observability.remote_numbers import RemoteNumbers
from penstock.runtime.rate_limit import pause_after
from penstock.runtime.tasks import OwnedThread
from penstock.settings import Settings

log = structlog.get_logger()

HANGING_SECONDS = 30.0
"""How long tasks may be without heartbeats, once they count as such, before the job is restarted."""

START_SECONDS = 120.0
"""How long tasks may take to send their first heartbeat."""


class LivenessVerdict(enum.Enum):
    """What to do about tasks without heartbeats."""

    ALIVE = "nothing"
    NO_SLOT = "report that tasks have no slot"
    RESTART = "restart the job"


@dataclass
class TaskLiveness:
    """Remembers since when tasks have sent no heartbeats. Pure: heartbeats and time are passed in."""

    tasks: int
    since: float | None = None
    heard_all: bool = False
    """Whether all tasks of this job were alive at the same time."""

    def begin(self) -> None:
        """A new job starts."""
        self.since, self.heard_all = None, False

    def reset(self) -> None:
        """Until now no heartbeat could arrive, for reasons that are not the tasks'."""
        self.since = None

    def evaluate(self, now: float, alive: int, running: int | None) -> LivenessVerdict:
        """By the number of tasks with recent heartbeats, and of those that Spark runs, where it reports that."""
        if alive >= self.tasks:
            self.since, self.heard_all = None, True
            return LivenessVerdict.ALIVE
        self.since = now if self.since is None else self.since
        if now - self.since <= (HANGING_SECONDS if self.heard_all else START_SECONDS):
            waiting = running is not None and running < self.tasks and now - self.since > HANGING_SECONDS
            return LivenessVerdict.NO_SLOT if waiting else LivenessVerdict.ALIVE
        return LivenessVerdict.NO_SLOT if running is not None and running < self.tasks else LivenessVerdict.RESTART


RESTART_SECONDS = (0.5, 10.0)
"""First and longest pause before the job is restarted."""
STEADY_SECONDS = 60.0
"""A job that ran this long had started well: the pauses begin again with the first."""
MAX_FAILURES = 8
"""Jobs in a row that ended soon, after which the service fails."""
STOP_MARGIN_SECONDS = 10.0
WATCH_SECONDS = 2.0
"""Between checks of the tasks."""
ASK_SECONDS = 5.0


def exporting(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where spans are exported to: tasks on other machines export their own."""
    return {name: value for name, value in environment.items() if name.startswith("OTEL_")}


class DispatcherService:
    """Delivers matched events until it is stopped."""

    def __init__(self, spark: SparkSession, settings: Settings, *, epoch: int = 0) -> None:
        self._context, self._settings = spark.sparkContext, settings
        self._run_id = uuid.uuid4().hex
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._restarts = 0
        self._epoch = epoch
        self._problem = ""
        self._acks: dict[str, Heard] = {}
        self._points: dict[str, int] = {}
        """Numbers of the generations that routers have recorded, by key."""
        self._shut_out = 0
        """A generation whose records are ignored although no later one was recorded."""
        self._fresh = threading.Event()
        self._numbers = RemoteNumbers()
        self._liveness = TaskLiveness(settings.dispatchers)
        self._follower = TableFollower(
            settings, topics.REPORTS, self._note, self._fresh.set, self._fail, again=self._fresh.clear
        )
        self._thread = OwnedThread("dispatcher", self._run, self._fail)
        self._watch = OwnedThread("dispatcher's watch", self._watch_tasks, self._fail)

    def start(self) -> None:
        """Begins; returns at once."""
        self._follower.start()
        self._thread.start()
        self._watch.start()

    def wait_ready(self, timeout: float) -> None:
        """Returns when every task delivers. Raises TimeoutError, or what made the service fail."""
        deadline = time.monotonic() + timeout
        while len(self._alive()) < self._settings.dispatchers:
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"the dispatcher was not ready within {timeout:g} s: {self.status()}")
            self._stopping.wait(0.05)

    def status(self) -> dict[str, Any]:
        """Tasks configured and alive, the version of routes that all of them use, and restarts of the job."""
        alive = self._alive()
        version = min((ack.version for ack in alive), default=0)
        return {
            "epoch": self._epoch,
            "tasks": self._settings.dispatchers,
            "ready": len(alive),
            "version": version,
            "restarts": self._restarts,
            "problem": self._problem,
            "shut_out": self._shut_out,
        }

    def failure(self) -> BaseException | None:
        """Why the service ended by itself; None while it runs or when it was stopped."""
        return self._failure

    def stop(self) -> None:
        """Shuts down: tasks finish requests in flight within the drain time and write their cursors."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        record = StopRecord(self._settings, self._run_id)
        record.write()
        if not self._ended.wait(self._settings.drain_seconds + STOP_MARGIN_SECONDS):
            log.warning("dispatcher tasks did not end in time and are cancelled")
            self._context.cancelJobGroup(self._run_id)
            self._ended.wait(5)
        self._follower.stop()
        record.remove()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _note(self, key: str, value: bytes | None) -> None:
        if key.startswith(f"{task_reports.KIND}/"):
            self._hear(key, value)
        if key.startswith((f"{generations.KIND}/", f"{generations.SHUT_OUT}/")):
            self._note_generation(key, value)
        if not key.startswith("ack/dispatcher/"):
            return
        ack = None if value is None else reports.decode(key, value)
        if isinstance(ack, Ack) and self._fresh.is_set():
            self._acks[key] = Heard(ack, time.monotonic())
        else:
            self._acks.pop(key, None)  # ended, or written by a task of an earlier run

    def _note_generation(self, key: str, value: bytes | None) -> None:
        """A fence is written after its point, so when a task reports a fence, the point has been read here."""
        if value is None:
            self._points.pop(key, None)
        elif key.startswith(f"{generations.KIND}/"):
            self._points[key] = generations.decode(value).number
        elif self._fresh.is_set():
            report = generations.decode_shut_out(value)
            self._shut_out = report.generation if report.fence > max(self._points.values(), default=0) else 0

    def _hear(self, key: str, value: bytes | None) -> None:
        """The report of a task on another machine: metrics to be shown here, and warnings to be logged here too."""
        if value is None:
            self._numbers.ended(key.partition("/")[2])
            return
        report = task_reports.decode(value)
        if report.run != self._run_id:
            return  # from an earlier run
        self._numbers.take(report.instance, report.changes)
        for gone in report.gone:
            self._numbers.forget(gone)
        for line in report.lines:
            log.warning("a dispatcher task warns", task=report.instance, host=report.host, said=line)

    def _alive(self) -> list[Ack]:
        """Tasks of this run with a recent heartbeat, by the clock of this machine."""
        return reports.alive(list(self._acks.values()), time.monotonic())

    def _watch_tasks(self) -> None:
        """Restarts the job, or reports missing slots, when tasks send no heartbeats."""
        while not self._stopping.wait(WATCH_SECONDS) and not self._ended.is_set():
            alive, running = len(self._alive()), self._running_tasks()
            verdict = self._liveness.evaluate(time.monotonic(), alive, running)
            self._report_missing_slots(alive, running if verdict is LivenessVerdict.NO_SLOT else None)
            if verdict is LivenessVerdict.RESTART and self._kafka_responds():
                log.error("dispatcher tasks send no heartbeats; restarting their job", alive=alive)
                self._liveness.begin()
                self._context.cancelJobGroup(self._run_id)

    def _report_missing_slots(self, alive: int, running: int | None) -> None:
        tasks, problem = self._settings.dispatchers, ""
        if running is not None:
            problem = f"{tasks - running} of {tasks} dispatcher tasks have no task slot: Spark has too few for all."
        if problem and not self._problem:
            log.error("dispatcher tasks wait for a slot", problem=problem, alive=alive)
        self._problem = problem

    def _running_tasks(self) -> int | None:
        """Tasks of the job that Spark runs now; None where it does not report that."""
        try:
            tracker = self._context.statusTracker()
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getJobIdsForGroup(self._run_id)[-1:]
                if (info := tracker.getJobInfo(job)) is not None
                for stage in info.stageIds
            ]
            found = [stage.numActiveTasks for stage in stages if stage is not None]
            return sum(found) if found else None
        except (Py4JError, OSError):
            return None

    def _kafka_responds(self) -> bool:
        """Whether missing heartbeats mean anything: without Kafka there are none."""
        try:
            TopicAdmin(self._settings).partitions(ASK_SECONDS)
        except NotDone:
            self._liveness.reset()
            return False
        return True

    def _run(self) -> None:
        values = portable(self._settings).model_copy(update={"spark_conf": {}}).model_dump(mode="json")
        body = functools.partial(serve, self._run_id, values, exporting(os.environ))
        failures, tasks = 0, self._settings.dispatchers
        try:
            while not self._stopping.is_set():
                begun = time.monotonic()
                self._liveness.begin()
                problem: BaseException | None = None
                try:
                    self._context.setJobGroup(self._run_id, "penstock dispatcher", interruptOnCancel=True)
                    self._context.parallelize(range(tasks), tasks).foreachPartition(body)
                except Exception as error:  # whatever ended the job: Spark's, py4j's or a task's error
                    problem = error
                if self._stopping.is_set():
                    return
                if (another := AnotherLog.found_in(str(problem))) is not None:
                    self._failure = another
                    return
                failures = 1 if time.monotonic() - begun > STEADY_SECONDS else failures + 1
                self._restarts += 1
                log.error("the dispatcher's job has ended; restarting it", failures=failures, error=describe(problem))
                if failures >= MAX_FAILURES:
                    self._failure = problem or RuntimeError("the dispatcher's job keeps ending")
                    return
                self._stopping.wait(pause_after(failures, *RESTART_SECONDS))
        finally:
            self._ended.set()
