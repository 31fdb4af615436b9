"""The dispatcher as a service of the Spark application: one job whose tasks never end by themselves.

Spark starts a task again that dies; a job that ends is started again here, after a pause that grows, and so is one
whose tasks are silent. Tasks are told to stop by a record in Kafka, so it does not matter on which machine they run.
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
from penstock.kafka.reports import StopSign
from penstock.kafka.table import TableFollower
from penstock.observability.logs import describe
from penstock.observability.remote_numbers import RemoteNumbers
from penstock.runtime.rate_limit import pause_after
from penstock.runtime.tasks import OwnedThread
from penstock.settings import Settings

# What to do about dispatcher tasks that are not heard of. Pure: what was heard, and when, is handed in. A task that
# dies is started again by Spark. One that hangs, or that never got a slot, is no failure to Spark. The former is
# helped by starting the job again, which ends what hangs; the latter by nobody but those who add executors.

HANGING_SECONDS = 30.0
"""How long tasks that were heard of may be silent, after they count as such, before the job is started again."""

START_SECONDS = 120.0
"""How long tasks may take to be heard of for the first time."""


class SilenceVerdict(enum.Enum):
    """What to do."""

    GO_ON = "go on"
    TELL = "tell that tasks have no slot"
    RESTART = "start the job again"


@dataclass
class SilenceGuard:
    """Remembers since when tasks have been silent."""

    tasks: int
    since: float | None = None
    heard_all: bool = False
    """Whether all tasks of this job were heard of at once."""

    def begin(self) -> None:
        """Another job starts."""
        self.since, self.heard_all = None, False

    def excuse(self) -> None:
        """Nothing could be heard until now, for reasons that are not the tasks'."""
        self.since = None

    def judge(self, now: float, alive: int, running: int | None) -> SilenceVerdict:
        """By the number of tasks that were heard of lately, and of those that Spark runs, where it says."""
        if alive >= self.tasks:
            self.since, self.heard_all = None, True
            return SilenceVerdict.GO_ON
        self.since = now if self.since is None else self.since
        if now - self.since <= (HANGING_SECONDS if self.heard_all else START_SECONDS):
            waiting = running is not None and running < self.tasks and now - self.since > HANGING_SECONDS
            return SilenceVerdict.TELL if waiting else SilenceVerdict.GO_ON
        return SilenceVerdict.TELL if running is not None and running < self.tasks else SilenceVerdict.RESTART


log = structlog.get_logger()

RESTART_SECONDS = (0.5, 10.0)
"""First and longest pause before the job is started again."""
"""Before the job is started again, the last one from then on."""
STEADY_SECONDS = 60.0
"""A job that ran this long had started well: the pauses begin anew."""
MAX_DEATHS = 8
"""Jobs that ended soon, in a row, after which the service gives up."""
STOP_MARGIN_SECONDS = 10.0
WATCH_SECONDS = 2.0
"""Between looks at the tasks."""
ASK_SECONDS = 5.0


def exporting(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where spans go: a task on another machine sends its own there."""
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
        """Numbers of the generations that routers have noted, by key."""
        self._shut_out = 0
        """A generation whose records do not count although no later one was noted."""
        self._fresh = threading.Event()
        self._numbers = RemoteNumbers()
        self._silence = SilenceGuard(settings.dispatchers)
        self._follower = TableFollower(
            settings, topics.REPORTS, self._note, self._fresh.set, self._fail, again=self._fresh.clear
        )
        self._thread = OwnedThread("dispatcher", self._run, self._fail)
        self._watch = OwnedThread("dispatcher's watch", self._look_after_tasks, self._fail)

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
        """Tasks asked for and alive, the version of routes that all of them act by, and restarts of the job."""
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
        """Ends in order: tasks finish what is under way within the drain time and write their cursors."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        sign = StopSign(self._settings, self._run_id)
        sign.show()
        if not self._ended.wait(self._settings.drain_seconds + STOP_MARGIN_SECONDS):
            log.warning("dispatcher tasks did not end in time and are cancelled")
            self._context.cancelJobGroup(self._run_id)
            self._ended.wait(5)
        self._follower.stop()
        sign.remove()

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
            self._acks.pop(key, None)  # ended, or a predecessor's last word

    def _note_generation(self, key: str, value: bytes | None) -> None:
        """A fence comes after its point, so a task that tells of a fence has read it after the point was here."""
        if value is None:
            self._points.pop(key, None)
        elif key.startswith(f"{generations.KIND}/"):
            self._points[key] = generations.decode(value).number
        elif self._fresh.is_set():
            told = generations.decode_shut_out(value)
            self._shut_out = told.generation if told.fence > max(self._points.values(), default=0) else 0

    def _hear(self, key: str, value: bytes | None) -> None:
        """What a task on another machine tells: numbers that are shown here, and warnings that are logged here too."""
        if value is None:
            self._numbers.ended(key.partition("/")[2])
            return
        report = task_reports.decode(value)
        if report.run != self._run_id:
            return  # a predecessor's
        self._numbers.take(report.instance, report.changes)
        for gone in report.gone:
            self._numbers.forget(gone)
        for line in report.lines:
            log.warning("a dispatcher task warns", task=report.instance, host=report.host, said=line)

    def _alive(self) -> list[Ack]:
        """Tasks of this run that were heard of lately, by the clock of this machine."""
        return reports.alive(list(self._acks.values()), time.monotonic())

    def _look_after_tasks(self) -> None:
        """Acts where tasks are silent: nobody else would."""
        while not self._stopping.wait(WATCH_SECONDS) and not self._ended.is_set():
            alive, running = len(self._alive()), self._running_tasks()
            verdict = self._silence.judge(time.monotonic(), alive, running)
            self._tell(alive, running if verdict is SilenceVerdict.TELL else None)
            if verdict is SilenceVerdict.RESTART and self._kafka_answers():
                log.error("dispatcher tasks are silent; their job is started again", alive=alive)
                self._silence.begin()
                self._context.cancelJobGroup(self._run_id)

    def _tell(self, alive: int, running: int | None) -> None:
        tasks, problem = self._settings.dispatchers, ""
        if running is not None:
            problem = f"{tasks - running} of {tasks} dispatcher tasks have no task slot: Spark has too few for all."
        if problem and not self._problem:
            log.error("dispatcher tasks wait for a slot", problem=problem, alive=alive)
        self._problem = problem

    def _running_tasks(self) -> int | None:
        """Tasks of the job that Spark runs now; None where it does not say."""
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

    def _kafka_answers(self) -> bool:
        """Whether silence means anything: without Kafka nobody is heard of."""
        try:
            TopicAdmin(self._settings).partitions(ASK_SECONDS)
        except NotDone:
            self._silence.excuse()
            return False
        return True

    def _run(self) -> None:
        values = portable(self._settings).model_copy(update={"spark_conf": {}}).model_dump(mode="json")
        body = functools.partial(serve, self._run_id, values, exporting(os.environ))
        deaths, tasks = 0, self._settings.dispatchers
        try:
            while not self._stopping.is_set():
                begun = time.monotonic()
                self._silence.begin()
                problem: BaseException | None = None
                try:
                    self._context.setJobGroup(self._run_id, "penstock dispatcher", interruptOnCancel=True)
                    self._context.parallelize(range(tasks), tasks).foreachPartition(body)
                except Exception as error:
                    problem = error
                if self._stopping.is_set():
                    return
                if (another := AnotherLog.found_in(str(problem))) is not None:
                    self._failure = another
                    return
                deaths = 1 if time.monotonic() - begun > STEADY_SECONDS else deaths + 1
                self._restarts += 1
                log.error("the dispatcher's job has ended and is started again", deaths=deaths, error=describe(problem))
                if deaths >= MAX_DEATHS:
                    self._failure = problem or RuntimeError("the dispatcher's job keeps ending")
                    return
                self._stopping.wait(pause_after(deaths, *RESTART_SECONDS))
        finally:
            self._ended.set()
