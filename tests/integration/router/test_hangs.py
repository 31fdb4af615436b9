"""What hangs is noticed: the task of one partition, a task that cannot be ended, the router itself."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyspark.sql import functions as F

from penstock.router import query, watchdogs
from penstock.router.generations.generations import CannotStop
from penstock.router.plan import routing
from penstock.router.query import Query
from penstock.router.service import RouterHangs, RouterService
from penstock.runtime.lifecycle import EXIT_CODE
from penstock.settings import Settings
from tests.integration.router.router_stage import Stage, steady_load, trigger
from tests.waiting import eventually
from tools.chaos.victims import alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StartRouter = Callable[[Settings], RouterService]

HUNG = 2
"""The partition whose task hangs."""


@pytest.fixture
def first_generation_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of one partition sleeps when it comes to an event of the type `sleep`, in the first query only."""
    plain, generations = routing.route, list[int]()

    def sleepy(events: DataFrame, table: Any, generation: int, prefix: str) -> DataFrame:
        generations.append(generation)
        if len(generations) > 1:
            return plain(events, table, generation, prefix)
        asleep = F.col("partition").eqNullSafe(HUNG) & F.exists(
            "headers", lambda h: h["value"] == F.encode(F.lit("sleep"), "UTF-8")
        )
        nap = F.expr("java_method('java.lang.Thread', 'sleep', 600000L + offset * 0L)")
        return plain(events.where(F.when(asleep, nap.isNull()).otherwise(F.lit(True))), table, generation, prefix)

    monkeypatch.setattr(query, "route", sleepy)


def test_a_partition_whose_task_hangs_gets_another_while_the_others_move_on(
    stage: Stage, start_router: StartRouter, first_generation_hangs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdogs, "REPLACE_SECONDS", 8.0)  # longer than a machine pauses
    stage.publish(trigger("awake", stage.ends(), type="awake"), trigger("asleep", stage.ends(), type="sleep"))
    router = start_router(stage.settings)
    generation = router.status()["generation"]
    began = time.monotonic()
    stage.send("sleeper", "sleep", partition=HUNG)
    with steady_load(stage, "awake", pause=0.01) as sent:
        eventually(lambda: router.status()["generation"] > generation, 120)
        assert time.monotonic() - began > 8
    eventually(lambda: set(sent) <= set(stage.ids("awake")) and stage.ids("asleep"), 120)
    assert router.failure() is None
    assert eventually(lambda: router.status()["stalled_seconds"] == 0, 120)
    print(f"a partition that stood still was routed again after {time.monotonic() - began:.1f} s")


@pytest.fixture
def suspended(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Suspends a task of the query, which no interrupt ends; it goes on after the test."""
    jvm: Any = spark._jvm
    if int(jvm.java.lang.Runtime.version().feature()) > 19:
        pytest.skip("this Java cannot suspend a thread")
    held: list[Any] = []

    def suspend() -> None:
        threads = list(jvm.java.lang.Thread.getAllStackTraces().keySet())
        thread = next(each for each in threads if "Executor task launch worker for task" in each.getName())
        thread.suspend()
        held.append(thread)

    yield suspend
    for thread in held:
        thread.resume()


def test_a_query_whose_task_cannot_be_ended_fails_the_router(
    stage: Stage, start_router: StartRouter, suspended: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdogs, "REPLACE_SECONDS", 3.0)
    monkeypatch.setattr(query, "STOP_SECONDS", 2.0)
    stage.publish(trigger("stuck", stage.ends(), type="stuck"))
    router = start_router(stage.settings)
    suspended()
    with steady_load(stage, "stuck", pause=0.01):
        failure = eventually(router.failure, 120)
    assert isinstance(failure, CannotStop)
    assert "did not end within" in str(failure)


def test_a_router_that_hangs_is_noticed_from_outside(
    stage: Stage, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, released = threading.Event(), threading.Event()
    router = RouterService(spark, stage.settings, end_process=ended.set)
    stage.publish(trigger("never", stage.ends(), type="never"))
    router.start()
    try:
        router.wait_ready(180)
        monkeypatch.setattr(watchdogs.HangWatchdog.heartbeat, "__defaults__", ("routes", 2.0))
        alive = Query.alive
        monkeypatch.setattr(Query, "alive", lambda self: released.wait(180) and alive(self))
        assert ended.wait(120)
        failure = router.failure()
        assert isinstance(failure, RouterHangs)
        assert str(failure).startswith("the router hangs: it routes, for")
    finally:
        released.set()
        router.stop()
        router._thread.join(120)


ENDING = """
import subprocess, sys
from penstock.runtime.lifecycle import kill_process_tree
jvm = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.pause()"])
print(jvm.pid, flush=True)
kill_process_tree()
"""


def test_a_process_that_ends_for_a_hang_takes_its_jvm_along() -> None:
    ran = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == EXIT_CODE, ran.stderr
    jvm = int(ran.stdout)
    eventually(lambda: not psutil.pid_exists(jvm) or not alive(psutil.Process(jvm)))
