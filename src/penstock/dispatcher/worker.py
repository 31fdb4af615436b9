"""A dispatcher task inside a Spark Python worker: finds its partitions, listens for the stop sign, runs the task.

The stop sign is a record in `penstock.reports` with a key of this run, which reaches a worker wherever Spark put it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import uvloop
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.contract import topics
from penstock.dispatcher.task import run_task
from penstock.lifecycle import settle_garbage
from penstock.log.table import TableFollower
from penstock.observability.instruments import record_metrics
from penstock.observability.logs import configure_logging
from penstock.settings import Settings

LOOK_SECONDS = 1.0


def stop_key(run: str) -> str:
    """Key of the record that stops the tasks of a run."""
    return f"stop/dispatcher/{run}"


def serve(run: str, values: dict[str, Any], indices: Iterable[int]) -> None:
    """The body of a Spark partition: its one element is the number of the task."""
    settings = Settings(**values)
    level = "debug" if settings.verbose else "info"
    configure_logging("dispatcher", level, settings.data_dir / "logs" / "dispatcher.log")
    record_metrics(settings.metrics)
    settle_garbage()
    for index in indices:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(run, settings, index))


async def _run(run: str, settings: Settings, index: int) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    sign = stop_key(run)

    def apply(key: str, value: bytes | None) -> None:
        if key == sign and value is not None:
            loop.call_soon_threadsafe(stop.set)

    follower = TableFollower(settings.bootstrap, topics.REPORTS, apply, lambda: None)
    follower.start()
    try:
        owned = await asyncio.to_thread(_owned, settings, index)
        if owned:
            await run_task(settings, owned, stop, f"dispatcher-{index}")
        else:
            await stop.wait()
    finally:
        await asyncio.to_thread(follower.stop)


def _owned(settings: Settings, index: int) -> list[int]:
    """The task's share of the partitions there really are: their number is fixed when the topic is created."""
    while True:
        try:
            topic = AdminClient({"bootstrap.servers": settings.bootstrap}).list_topics(topics.MATCHED, LOOK_SECONDS * 5)
            partitions = topic.topics[topics.MATCHED].partitions
            if partitions:
                return list(_share(sorted(partitions), settings.dispatchers, index))
        except (KafkaException, KeyError):
            continue


def _share(partitions: list[int], tasks: int, index: int) -> Iterator[int]:
    return (partition for partition in partitions if partition % tasks == index)
