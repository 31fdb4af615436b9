"""A dispatcher task inside a Spark Python worker: finds its partitions, waits for the stop record, runs the task.

The stop record is in `penstock.reports`, with a key of this run, and so reaches a worker wherever Spark runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

import structlog
import uvloop

from penstock.contract import topics
from penstock.dispatcher.task import run_task
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.reports import stop_key
from penstock.kafka.table import TableFollower
from penstock.kafka.task_reports import TaskReporter
from penstock.observability.instruments import record_metrics, send_metrics
from penstock.observability.logs import configure_logging
from penstock.observability.remote_metrics import KeptLines, Outbox
from penstock.runtime.lifecycle import first, settle_garbage
from penstock.runtime.rate_limit import pause_after
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

log = structlog.get_logger()

ASK_SECONDS = 5.0
PAUSE_SECONDS = (0.1, 2.0)
"""First and longest pause before Kafka is asked for the topic again."""


def serve(run: str, values: dict[str, Any], environment: dict[str, str], indices: Iterable[int]) -> None:
    """The body of a Spark partition: its one element is the number of the task."""
    settings = Settings(**values)
    level = "debug" if settings.verbose else "info"
    record_metrics(settings.metrics)
    if settings.on_cluster:
        os.environ.update(environment)
        outbox = _report_remotely(level)
    else:
        outbox = None
        configure_logging("dispatcher", level, settings.data_dir / "logs" / "dispatcher.log")
    settle_garbage()
    for index in indices:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(run, settings, index, outbox))


def _report_remotely(level: str) -> Outbox:
    """For a task on another machine: logs to the executor's own log, and sends metrics and warnings to Kafka."""
    outbox = send_metrics()
    configure_logging("dispatcher", level)
    root = logging.getLogger()
    forwarded = KeptLines(outbox)
    forwarded.setFormatter(root.handlers[0].formatter)
    root.addHandler(forwarded)
    return outbox


async def _run(run: str, settings: Settings, index: int, outbox: Outbox | None) -> None:
    stop, scope = asyncio.Event(), TaskScope()
    reporter = None
    if outbox is not None:
        reporter = TaskReporter(settings, run, f"dispatcher-{index}", outbox, scope.fail)
    sign = stop_key(run)

    def apply(key: str, value: bytes | None) -> None:
        if key == sign and value is not None:
            scope.hand_over(stop.set)

    follower = TableFollower(settings, topics.REPORTS, apply, lambda: None, scope.fail)
    follower.start()
    try:
        await first(_deliver(settings, index, stop), scope.failed())
    finally:
        await asyncio.to_thread(follower.stop)
        if reporter is not None:
            await asyncio.to_thread(reporter.close)


async def _deliver(settings: Settings, index: int, stop: asyncio.Event) -> None:
    partitions = await _partitions(TopicAdmin(settings), topics.MATCHED, stop)
    owned = list(_share(partitions, settings.dispatchers, index))
    if owned:
        await run_task(settings, owned, stop, f"dispatcher-{index}")
    else:
        await stop.wait()


async def _partitions(admin: TopicAdmin, topic: str, stop: asyncio.Event) -> range:
    """The partitions of a topic, once it exists; none if the task is stopped before."""
    for failures in itertools.count(1):
        try:
            count = (await asyncio.to_thread(admin.partitions, ASK_SECONDS)).get(topic, 0)
            problem = "it does not exist"
        except NotDone as error:
            count, problem = 0, str(error)
        if count or stop.is_set():
            break
        if failures == 1:
            log.warning("waiting for a topic", topic=topic, problem=problem)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause_after(failures, *PAUSE_SECONDS))
    return range(count)


def _share(partitions: Iterable[int], tasks: int, index: int) -> Iterator[int]:
    return (partition for partition in partitions if partition % tasks == index)
