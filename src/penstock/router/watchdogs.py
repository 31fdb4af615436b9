"""Watchdogs of the router: of its thread, of task slots, of partitions without progress, of killed tasks.

The router's thread calls Spark's JVM, and a call to a JVM that does not respond never returns. So before anything that
may hang the thread sends a heartbeat with what it does and how long that may take; another thread checks whether the
time is over. A thread that hangs cannot be ended, only its process can.
"""

from __future__ import annotations

import enum
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AwakeClock:
    """A monotonic clock that ignores time in which the process was suspended. For one thread that reads it often.

    After a suspension, or without a processor for long, much time has passed in which nothing could happen. So a gap
    between two readings counts as `longest_gap` at most.
    """

    def __init__(self, longest_gap: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_gap, self._clock = longest_gap, clock
        self._last, self._awake = clock(), 0.0

    def __call__(self) -> float:
        """Seconds in which the process was running."""
        now = self._clock()
        self._awake += min(now - self._last, self._longest_gap)
        self._last = now
        return self._awake


TURN_SECONDS = 60.0
"""How long anything may take for which no other limit is given. Milliseconds are usual, and Kafka has 5 s; but on an
overloaded machine, ending the process without need would delay everything further."""

LOOK_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Heartbeat:
    """What the watched thread does now, and how many seconds that may take. Compared by identity."""

    doing: str
    seconds: float


class HangWatchdog:
    """Calls `hanging`, from a thread of its own, when the watched thread takes too long."""

    def __init__(self, hanging: Callable[[str], None], clock: Callable[[], float] | None = None) -> None:
        self._hanging = hanging
        self._clock = clock or AwakeClock(2 * LOOK_SECONDS)
        self._heartbeat = self._seen = Heartbeat("begins", TURN_SECONDS)
        self._since = self._clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="router's watchdog", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends watching."""
        self._stop.set()
        self._thread.join(timeout=2 * LOOK_SECONDS)

    def heartbeat(self, doing: str = "routes", seconds: float = TURN_SECONDS) -> None:
        """To be called by the watched thread; the next heartbeat follows within these seconds."""
        self._heartbeat = Heartbeat(doing, seconds)

    def look(self) -> str | None:
        """What the watched thread hangs in; None while it does not hang."""
        now, heartbeat = self._clock(), self._heartbeat
        if heartbeat is not self._seen:
            self._seen, self._since = heartbeat, now
        waited = now - self._since
        return None if waited <= heartbeat.seconds else f"{heartbeat.doing}, for {waited:.0f} s"

    def _run(self) -> None:
        """Checks once a second. A failure of the watchdog itself counts as hanging: nothing would be watched any
        more."""
        try:
            while not self._stop.wait(LOOK_SECONDS):
                if (found := self.look()) is not None:
                    self._hanging(found)
                    return
        except Exception as error:  # see above
            self._hanging(f"its watchdog failed: {type(error).__name__}: {error}")


def stack_of(thread: threading.Thread) -> list[str]:
    """The stack of a thread, innermost frame last, for the log."""
    frame = sys._current_frames().get(thread.ident or 0)
    return (
        []
        if frame is None
        else [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)]
    )


# Task slots: tasks of the query and of the dispatcher never end by themselves, and Spark starts a task whenever a slot
# is free. With too few slots it neither fails nor warns, so they are counted before anything is started.


class TooFewSlots(RuntimeError):
    """There are not enough task slots for another query."""


def count_slots(spark: SparkSession) -> int | None:
    """Tasks that all executors together can run at once; None where Spark does not report it."""
    try:
        executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
        return sum(int(executors.apply(number).maxTasks()) for number in range(executors.size()))
    except (Py4JError, OSError):
        return None


def least_slots(settings: Settings, partitions: int) -> int:
    """Minimum of slots to route and deliver at all: a query, the dispatchers, and one spare."""
    return partitions + settings.dispatchers + 1


def shortage(settings: Settings, partitions: int, there: int | None, *, beside: bool) -> str | None:
    """Why no query can start now, beside another that runs or alone; None where it can."""
    enough = 2 * partitions + settings.dispatchers + 2 if beside else least_slots(settings, partitions)
    if there is None or there >= enough:
        return None
    what = "A change of routes" if beside else "Routing"
    return (
        f"{what} needs {enough} task slots, the Spark cluster has {there}: "
        f"{2 if beside else 1} x {partitions} partitions, {settings.dispatchers} dispatcher tasks and "
        f"{2 if beside else 1} for Spark itself. Add executors or cores (spark_executors, spark_executor_cores)."
    )


# Partitions that stand still while others make progress. A task that hangs is not dead, so Spark does nothing about it.
# First the query is replaced, which gives the partition another task. If that stands still as well, the process is at
# fault and ends. There is more than a minute between the start of a process and such an end, so that the supervisor
# does not treat it as one that cannot start.

REPLACE_SECONDS = 15.0
"""How long a partition may be without progress, although a marker is due there, before the query is replaced."""

END_SECONDS = 30.0
"""The same for the query that replaced one."""


class StallVerdict(enum.Enum):
    """What to do about partitions that stand still."""

    GO_ON = "go on"
    REPLACE = "replace the query"
    END = "end the process"


@dataclass
class StallGuard:
    """Remembers whether the running query replaced another that stood still. Pure: who is late is passed in."""

    replaced: bool = False

    def evaluate(self, late: Mapping[int, float], *, steady: bool) -> StallVerdict:
        """By the partitions that are late, in seconds; `steady` after a good while in which none was."""
        longest = max(late.values(), default=0.0)
        if self.replaced:
            self.replaced = not steady
            return StallVerdict.END if longest > END_SECONDS else StallVerdict.GO_ON
        if longest <= REPLACE_SECONDS:
            return StallVerdict.GO_ON
        self.replaced = True
        return StallVerdict.REPLACE


# Killed tasks: by hand, or by a cluster that reclaims an executor. A killed task does not count as failed, and Spark
# runs it again from the beginning of the long batch, so that new events wait behind all the old ones. Detecting it
# takes a few calls to the JVM, so it is not done at every check of the query. Micro-batches are short: they need no
# check.

KILLED_CHECK_SECONDS = 2.0


class KilledTasks:
    """Detects killed tasks of one running query."""

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._run = run
        self._jobs = spark.sparkContext.statusTracker()
        self._stages: Any = spark.sparkContext._jsc.sc().statusStore()
        self._next = 0.0
        self._found = False

    def found(self) -> bool:
        """Whether a task has been killed, as of the last check."""
        now = time.monotonic()
        if not self._found and now >= self._next:
            self._next = now + KILLED_CHECK_SECONDS
            self._found = self._look()
        return self._found

    def _look(self) -> bool:
        """Checks the newest job, which is the batch in progress."""
        try:
            jobs = self._jobs.getJobIdsForGroup(self._run)
            info = self._jobs.getJobInfo(max(jobs)) if jobs else None
            return info is not None and any(self._stages.lastStageAttempt(n).numKilledTasks() for n in info.stageIds)
        except (Py4JError, OSError):
            return False  # a stage that is not known yet; if Spark is gone, the check of the query reports it
