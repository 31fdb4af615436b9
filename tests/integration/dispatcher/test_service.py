"""The dispatcher inside Spark: tasks in Python workers, started again when they are killed, stopped by a record."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import psutil

from penstock.dispatcher.service import DispatcherService
from tests.integration.dispatcher.dispatcher_stage import Stage, Subscribe
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def workers() -> set[int]:
    """Python workers of this process's Spark: children of its daemons, and never a JVM, which names pyspark as well."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # as well those that are gone but not yet waited for
            if _is_daemon(process) and (parent := process.parent()) is not None and _is_daemon(parent):
                found.add(process.pid)
    return found


def _is_daemon(process: psutil.Process) -> bool:
    """Workers are forks of it, so they look the same."""
    return "pyspark.daemon" in process.cmdline()


async def test_a_killed_worker_is_started_again_and_a_stop_leaves_nothing(
    stage: Stage, subscribe: Subscribe, spark: SparkSession
) -> None:
    subscriber = await subscribe()
    route = stage.trigger(subscriber.endpoint)
    stage.publish(route)
    settings = stage.settings.model_copy(update={"dispatchers": 2})
    service = DispatcherService(spark, settings)
    service.start()
    try:
        await asyncio.to_thread(service.wait_ready, 180)
        status = service.status()
        assert (status["tasks"], status["ready"]) == (2, 2)
        before = stage.match(route, count=5) + stage.match(route, count=5, partition=1)
        await until(lambda: sorted(subscriber.ids) == sorted(before), "the first events")
        found = workers()
        assert len(found) >= 2
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        after = stage.match(route, count=5) + stage.match(route, count=5, partition=1)
        await until(lambda: set(subscriber.ids) == {*before, *after}, "the events after the kill", 180)
        assert service.failure() is None
    finally:
        await asyncio.to_thread(service.stop)
    count = len(subscriber.requests)
    stage.match(route)
    await asyncio.sleep(1)
    assert len(subscriber.requests) == count
    assert service.failure() is None
