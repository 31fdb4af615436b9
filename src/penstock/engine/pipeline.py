"""The component `pipeline`: one Spark session that runs the router and the dispatcher.

Spark and Kafka start at the same time. The two services start when Kafka is ready and this process has the role, which
only one process has at a time. A standby has a local Spark ready; on a cluster it would take slots from the active
pipeline, so there it starts Spark only with `spark_warm_standby`. If a service fails, the process ends and is started
again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from penstock.contract.event_log import ADVICE, AnotherLog
from penstock.engine import spark
from penstock.engine.hanging_transactions import abort_hanging
from penstock.engine.jars import jar_cache
from penstock.engine.topics import topic_setup
from penstock.observability.logs import describe
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, first, kill_process_tree
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY_SECONDS = 300.0
"""Generous, because a restart would not make a busy machine faster. The router's watchdogs and Spark detect hangs
sooner."""
LOOK_SECONDS = 1.0
PARTITION_CHECK_SECONDS = 30.0
"""How often the number of partitions is checked."""
STOP_SECONDS = 5.0
"""Added to the drain time, to close clients and stop the query."""

log = structlog.get_logger()


class SparkEnded(RuntimeError):
    """Spark's JVM has ended."""


class MorePartitions(RuntimeError):
    """The topics have more partitions than Spark was started for."""


class DeliversNothing(RuntimeError):
    """Routed events are not delivered, and only another router generation can change that."""


class Service(Protocol):
    """The interface of the router and the dispatcher."""

    def start(self) -> None:
        """Starts the service."""

    def wait_ready(self, timeout: float) -> None:
        """Returns when the service is ready. Raises TimeoutError."""

    def status(self) -> dict[str, Any]:
        """Details for `penstock status`."""

    def stop(self) -> None:
        """Stops the service gracefully."""

    def failure(self) -> BaseException | None:
        """The error that stopped the service, or None."""


class MakeService(Protocol):
    """Creates the router or the dispatcher for the claim with this epoch."""

    def __call__(self, spark: SparkSession, settings: Settings, *, epoch: int) -> Service:
        """The service, not yet started."""


Claim = Callable[[], AbstractAsyncContextManager[int | None]]
"""A context in which this process has the role; its value is the epoch of the claim, None if stopped before."""


async def run(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event, claim: Claim) -> None:
    """Runs both services until the process is stopped. Raises the error of a service that failed."""
    settings = await asyncio.to_thread(topic_setup.with_actual_partitions, settings)
    importing = asyncio.create_task(asyncio.to_thread(_import_services), name="import the services")
    opening = _open_session(settings) if settings.spark_master is None or settings.spark_warm_standby else None
    if not await lifecycle.before_stop(released):
        return  # the JVM that is still starting ends with this process
    # With an embedded Kafka there is no other candidate for the role, so it can be claimed before Spark is up.
    if opening is not None and settings.kafka is not None and not await _before_stop(opening, lifecycle.stopping):
        return
    warming = None if opening is None else asyncio.create_task(_warm_standby(opening, lifecycle), name="warm up")
    async with claim() as epoch:
        if warming is not None:
            warming.cancel()
        opening = opening or _open_session(settings)
        if epoch is None or not await _before_stop(opening, lifecycle.stopping):
            return
        log.info("Spark is up", slots=settings.task_slots)
        make_services = await importing
        await _check_partitions(settings)
        session = opening.result()
        services = {name: make(session, settings, epoch=epoch) for name, make in make_services.items()}
        await _serve(session, services, settings, lifecycle)


async def _warm_standby(opening: asyncio.Task[SparkSession], lifecycle: Lifecycle) -> None:
    """Loads in a standby what the first query and the first delivery would have to wait for."""
    while not lifecycle.stands_by:  # noqa: ASYNC110  # set once, by the claim; never if there is no other candidate
        await asyncio.sleep(LOOK_SECONDS)
    try:
        await asyncio.to_thread(_warm_up, await opening)
    except Exception as error:  # best effort: without it only the first events are slower
        log.warning("warm-up failed; the first events will take longer", error=describe(error))


def _warm_up(session: SparkSession) -> None:
    """Loads Spark's planner and compiler, and starts a Python worker with the dispatcher's modules."""
    from penstock.router.plan.unplannable import attempt

    attempt(session, ())
    session.sparkContext.parallelize([0], 1).foreachPartition(_import_dispatcher)
    log.info("warmed up")


def _import_dispatcher(_: Iterable[int]) -> None:
    import penstock.dispatcher.worker  # noqa: F401


def _open_session(settings: Settings) -> asyncio.Task[SparkSession]:
    folder = jar_cache.Jars(jar_cache.folder(settings))
    return asyncio.create_task(
        asyncio.to_thread(spark.open_session, settings, folder, _java_home(), _jvm_ended), name="open the session"
    )


async def _serve(session: SparkSession, services: dict[str, Service], settings: Settings, lifecycle: Lifecycle) -> None:
    ending = asyncio.create_task(asyncio.to_thread(abort_hanging, session, settings), name="hanging transactions")
    try:
        await _run_services(session, services, settings, lifecycle)
    finally:
        ending.cancel()


async def _run_services(
    session: SparkSession, services: dict[str, Service], settings: Settings, lifecycle: Lifecycle
) -> None:
    starting = asyncio.gather(*(asyncio.to_thread(_start, one) for one in services.values()))
    if not await _before_stop(starting, lifecycle.stopping):
        return  # nothing to drain yet
    try:
        starting.result()
    except AnotherLog as error:
        raise UserError(error.what, ADVICE) from None
    lifecycle.ready(spark=session.version, **_status(services))
    lifecycle.doubts.append(lambda: why_unready(_status(services)))
    try:
        await first(_watch(services, lifecycle), _watch_partitions(settings))
    finally:
        await _stop(services, settings.drain_seconds)


def _import_services() -> dict[str, MakeService]:
    """Imports take about as long as the start of the JVM, so both happen at the same time."""
    from penstock.dispatcher.service import DispatcherService
    from penstock.router.service import RouterService

    return {"router": RouterService, "dispatcher": DispatcherService}


def _java_home() -> Path | None:
    """The Java that the supervisor found."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None


def _jvm_ended(code: int) -> None:
    """Raises in the thread that waits for the JVM, which ends the process: without the JVM nothing can be drained."""
    raise SparkEnded(f"exit code {code}" if code >= 0 else f"signal {-code}")


async def _stop(services: dict[str, Service], drain_seconds: float) -> None:
    """Stops both services; kills the process if one does not stop in time."""
    began = time.monotonic()
    stops = [asyncio.create_task(asyncio.to_thread(one.stop)) for one in services.values()]
    _, hanging = await asyncio.wait(stops, timeout=drain_seconds + STOP_SECONDS)
    log.info("router and dispatcher have stopped", seconds=round(time.monotonic() - began, 2), hanging=len(hanging))
    if hanging:
        kill_process_tree()  # before the role is released: the hanging service may still write


async def _watch_partitions(settings: Settings) -> None:
    """Raises MorePartitions when partitions were added: Spark needs a slot for each, reserved at its start."""
    while True:
        await asyncio.sleep(PARTITION_CHECK_SECONDS)
        await _check_partitions(settings)


async def _check_partitions(settings: Settings) -> None:
    found = (await asyncio.to_thread(topic_setup.with_actual_partitions, settings)).partitions
    if found > settings.partitions:
        raise MorePartitions(
            f"the topics now have {found} partitions instead of {settings.partitions}; the pipeline restarts"
        )


async def _watch(services: dict[str, Service], lifecycle: Lifecycle) -> None:
    shown: dict[str, Any] = {}
    while not lifecycle.stopping.is_set():
        for name, service in services.items():
            failure = service.failure()
            if isinstance(failure, AnotherLog):
                raise UserError(failure.what, ADVICE)
            if failure is not None:
                raise RuntimeError(f"the {name} failed: {failure}") from failure
        status = await asyncio.to_thread(_status, services)
        if (problem := why_undeliverable(status)) is not None:
            raise DeliversNothing(problem)
        if status != shown:
            lifecycle.status(**status)
            shown = status
        try:
            await asyncio.wait_for(lifecycle.stopping.wait(), LOOK_SECONDS)
        except TimeoutError:
            continue


def _start(service: Service) -> None:
    service.start()
    service.wait_ready(READY_SECONDS)


def _status(services: dict[str, Service]) -> dict[str, Any]:
    return {f"{name}_{key}": value for name, service in services.items() for key, value in service.status().items()}


def why_unready(status: Mapping[str, Any]) -> str | None:
    """Why events are not routed and delivered at the moment, or None."""
    if status.get("router_waiting_for_kafka"):
        return "the router waits for Kafka"
    if stalled := status.get("router_stalled_seconds"):
        return f"routing has made no progress for {stalled:g} s"
    ready, tasks = status.get("dispatcher_ready", 0), status.get("dispatcher_tasks", 0)
    return f"{ready} of {tasks} dispatcher tasks deliver" if ready < tasks else None


def why_undeliverable(status: Mapping[str, Any]) -> str | None:
    """Why the output of the current router generation cannot be delivered at all, or None."""
    live = status.get("router_generation")
    if not live or live != status.get("dispatcher_shut_out"):
        return None
    return (
        f"the dispatcher cannot deliver the output of router generation {live}: penstock.matched contains the fence of "
        "a later generation that is missing in penstock.reports; the process restarts with a higher generation"
    )


async def _before_stop(task: asyncio.Future[Any], stopping: asyncio.Event) -> bool:
    """Waits for the task; whether it was done before the stop."""
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return task.done() and not stopping.is_set()
