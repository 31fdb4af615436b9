"""Noticing that the router's thread hangs, from outside of it.

That thread asks Spark's JVM, and a call to a JVM that does not answer never returns. So before anything that may hang
the thread says what it does and how long that may take, and another thread looks whether it has said something new
since. A thread that hangs cannot be ended, only its process can.
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


# Time as the process lived it: what a watchdog may hold against others. A process that was frozen, or that got no
# processor, finds on waking that much time has passed in which nothing happened. Nobody stood still but itself, so a
# gap between two looks at the clock counts as no more than `longest_gap`.


class AwakeClock:
    """A clock in seconds, for one thread that looks at it often."""

    def __init__(self, longest_gap: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_gap, self._clock = longest_gap, clock
        self._looked, self._lived = clock(), 0.0

    def __call__(self) -> float:
        """Seconds lived so far."""
        now = self._clock()
        self._lived += min(now - self._looked, self._longest_gap)
        self._looked = now
        return self._lived


TURN_SECONDS = 60.0
"""How long anything may take for which no other limit is given. What is usual are milliseconds, and Kafka has 5 s; but
on a machine where everything waits for a processor an end in error would make all wait longer."""

LOOK_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Heartbeat:
    """What the watched thread does now, and how many seconds it may take. Each one is different from all others."""

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
        """The watched thread lives, and will say so again within these seconds."""
        self._heartbeat = Heartbeat(doing, seconds)

    def look(self) -> str | None:
        """What the watched thread hangs in; None while all is well."""
        now, heartbeat = self._clock(), self._heartbeat
        if heartbeat is not self._seen:
            self._seen, self._since = heartbeat, now
        waited = now - self._since
        return None if waited <= heartbeat.seconds else f"{heartbeat.doing}, for {waited:.0f} s"

    def _run(self) -> None:
        """Should looking itself fail, then nothing is watched any more, which is as bad as hanging."""
        try:
            while not self._stop.wait(LOOK_SECONDS):
                if (found := self.look()) is not None:
                    self._hanging(found)
                    return
        except Exception as error:
            self._hanging(f"its watchdog failed: {type(error).__name__}: {error}")


def stack_of(thread: threading.Thread) -> list[str]:
    """Where a thread is, innermost last: what a person needs to know about a hang."""
    frame = sys._current_frames().get(thread.ident or 0)
    return (
        []
        if frame is None
        else [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)]
    )


# Task slots of the Spark that runs here: how many there are, and whether a query more finds room. Tasks of the query
# and of the dispatcher never end by themselves, and Spark starts a task whenever a slot is free: with too few of them
# it neither fails nor says anything. So they are counted before anything is started.


class TooFewSlots(RuntimeError):
    """Another query would find no room beside what runs."""


def count(spark: SparkSession) -> int | None:
    """Tasks that all executors together can run at once; None where Spark does not say."""
    try:
        executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
        return sum(int(executors.apply(number).maxTasks()) for number in range(executors.size()))
    except (Py4JError, OSError):
        return None


def least(settings: Settings, partitions: int) -> int:
    """Slots without which nothing is routed and delivered at all: a query, the dispatchers, one for what comes up."""
    return partitions + settings.dispatchers + 1


def shortage(settings: Settings, partitions: int, there: int | None, *, beside: bool) -> str | None:
    """Why no query can start now, beside another that runs or alone; None where it can."""
    enough = 2 * partitions + settings.dispatchers + 2 if beside else least(settings, partitions)
    if there is None or there >= enough:
        return None
    what = "A change of routes" if beside else "Routing"
    return (
        f"{what} needs {enough} task slots, the Spark cluster has {there}: "
        f"{2 if beside else 1} x {partitions} partitions, {settings.dispatchers} dispatcher tasks and "
        f"{2 if beside else 1} for Spark itself. Add executors or cores (spark_executors, spark_executor_cores)."
    )


# What to do about partitions that stand still while the others move on. Pure: who is late is handed in. A task that
# hangs is not dead, so Spark does nothing about it. First the query is replaced, which gives the partition another
# task. Should that stand still as well, what it runs in must be at fault, and the process ends. A whole minute lies
# between the start of a process and such an end, so that the supervisor never takes it for one that cannot start.

REPLACE_SECONDS = 15.0
"""How long a partition may show nothing, although a marker is due there, before the query is replaced."""

END_SECONDS = 30.0
"""The same for the query that replaced one."""


class StallVerdict(enum.Enum):
    """What to do."""

    GO_ON = "go on"
    REPLACE = "replace the query"
    END = "end the process"


@dataclass
class StallGuard:
    """Remembers whether the query that runs is one that replaced another for standing still."""

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


# Noticing tasks that were killed: by hand, or by a cluster that takes an executor back. A killed task does not count
# as failed, and Spark runs it again from the beginning of the long batch, so that new events wait behind all the old
# ones. To see it takes a few calls to the JVM, hence not at every look at the query. Micro-batches are short: there
# is nothing to notice.

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
