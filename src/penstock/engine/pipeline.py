"""The component `pipeline`: one Spark session that runs the router and the dispatcher.

Spark starts while Kafka still does; the two services begin when Kafka is there and this process has the role, which
only one may have at a time. One that stands by has a local Spark ready; on a cluster it would keep slots from the one
at work, so there it has them only if it is told to (`spark_warm_standby`). If a service fails, the process ends, and
whoever started it starts it again.
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
from penstock.engine import jars, spark
from penstock.engine.hanging_transactions import end_hanging
from penstock.engine.topics import setup as topics
from penstock.observability.logs import describe
from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, end_at_once, first
from penstock.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY_SECONDS = 300.0
"""For a start on a machine that is busy: to begin again would make it busier. What hangs is noticed sooner, by the
router's own watchdogs and by Spark."""
LOOK_SECONDS = 1.0
WIDTH_SECONDS = 30.0
"""How often it is looked whether the topics have more partitions."""
STOP_SECONDS = 5.0
"""Beyond the drain time, for what cannot be drained: closing clients, stopping the query."""

log = structlog.get_logger()


class SparkEnded(RuntimeError):
    """Spark's JVM is gone."""


class MorePartitions(RuntimeError):
    """The topics have more partitions than Spark was started for."""


class DeliversNothing(RuntimeError):
    """Routed events reach no subscriber."""


class Service(Protocol):
    """What the router and the dispatcher look like from here."""

    def start(self) -> None:
        """Begins."""

    def wait_ready(self, timeout: float) -> None:
        """Returns when it works; raises TimeoutError if it does not in time."""

    def status(self) -> dict[str, Any]:
        """What `penstock status` shows."""

    def stop(self) -> None:
        """Ends in order."""

    def failure(self) -> BaseException | None:
        """Why it no longer works."""


class MakeService(Protocol):
    """Makes one of the two, for the claim with this epoch."""

    def __call__(self, spark: SparkSession, settings: Settings, *, epoch: int) -> Service:
        """The service, not yet started."""


Claim = Callable[[], AbstractAsyncContextManager[int | None]]
"""Within, this process has the role: the epoch of its claim. None where it was told to stop before."""


async def run(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event, claim: Claim) -> None:
    """Runs both services until told to stop; raises what made one of them fail."""
    settings = await asyncio.to_thread(topics.adopted, settings)
    importing = asyncio.create_task(asyncio.to_thread(_import_services), name="import the services")
    opening = _open(settings) if settings.spark_master is None or settings.spark_warm_standby else None
    if not await lifecycle.before_stop(released):
        return  # the JVM that is still starting ends with this process
    # Nobody else wants the role of a stack with a Kafka of its own, so there it need not wait for Spark.
    if opening is not None and settings.kafka is not None and not await _before_stop(opening, lifecycle.stopping):
        return
    warming = None if opening is None else asyncio.create_task(_warm_standby(opening, lifecycle), name="warm up")
    async with claim() as epoch:
        if warming is not None:
            warming.cancel()
        opening = opening or _open(settings)
        if epoch is None or not await _before_stop(opening, lifecycle.stopping):
            return
        log.info("Spark is up", slots=settings.task_slots)
        make_services = await importing
        await _check_width(settings)
        session = opening.result()
        services = {name: make(session, settings, epoch=epoch) for name, make in make_services.items()}
        await _serve(session, services, settings, lifecycle)


async def _warm_standby(opening: asyncio.Task[SparkSession], lifecycle: Lifecycle) -> None:
    """Has one that stands by do beforehand what the first query and the first delivery would have to wait for."""
    while not lifecycle.stands_by:  # noqa: ASYNC110  # said from elsewhere, once, and never where nobody else is there
        await asyncio.sleep(LOOK_SECONDS)
    try:
        await asyncio.to_thread(_warm_up, await opening)
    except Exception as error:  # only the first events are slower without it
        log.warning("could not warm up; the first events will wait longer", error=describe(error))


def _warm_up(session: SparkSession) -> None:
    """Spark's planner and compiler for the router, and a Python process with the dispatcher's modules."""
    from penstock.router.plan.unplannable import attempt

    attempt(session, ())
    session.sparkContext.parallelize([0], 1).foreachPartition(_import_dispatcher)
    log.info("warmed up")


def _import_dispatcher(_: Iterable[int]) -> None:
    import penstock.dispatcher.worker  # noqa: F401


def _open(settings: Settings) -> asyncio.Task[SparkSession]:
    folder = jars.Jars(jars.folder(settings))
    return asyncio.create_task(
        asyncio.to_thread(spark.open_session, settings, folder, _java_home(), _jvm_ended), name="open the session"
    )


async def _serve(session: SparkSession, services: dict[str, Service], settings: Settings, lifecycle: Lifecycle) -> None:
    ending = asyncio.create_task(asyncio.to_thread(end_hanging, session, settings), name="hanging transactions")
    try:
        await _run_services(session, services, settings, lifecycle)
    finally:
        ending.cancel()


async def _run_services(
    session: SparkSession, services: dict[str, Service], settings: Settings, lifecycle: Lifecycle
) -> None:
    coming = asyncio.gather(*(asyncio.to_thread(_bring_up, one) for one in services.values()))
    if not await _before_stop(coming, lifecycle.stopping):
        return  # nothing is under way yet that would have to be finished
    try:
        coming.result()
    except AnotherLog as error:
        raise UserError(error.what, ADVICE) from None
    lifecycle.ready(spark=session.version, **_status(services))
    lifecycle.doubts.append(lambda: why_unready(_status(services)))
    try:
        await first(_watch(services, lifecycle), _watch_width(settings))
    finally:
        await _stop(services, settings.drain_seconds)


def _import_services() -> dict[str, MakeService]:
    """Takes about as long as the JVM needs to answer, so it is done meanwhile."""
    from penstock.dispatcher.service import DispatcherService
    from penstock.router.service import RouterService

    return {"router": RouterService, "dispatcher": DispatcherService}


def _java_home() -> Path | None:
    """The Java that the supervisor found."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None


def _jvm_ended(code: int) -> None:
    """Nothing can be finished without the JVM: the thread that waited for it fails, and the process ends at once."""
    raise SparkEnded(f"exit code {code}" if code >= 0 else f"signal {-code}")


async def _stop(services: dict[str, Service], drain_seconds: float) -> None:
    """Lets both end in order; one that hangs must not keep a failed process alive."""
    began = time.monotonic()
    stops = [asyncio.create_task(asyncio.to_thread(one.stop)) for one in services.values()]
    _, hanging = await asyncio.wait(stops, timeout=drain_seconds + STOP_SECONDS)
    log.info("router and dispatcher have stopped", seconds=round(time.monotonic() - began, 2), hanging=len(hanging))
    if hanging:
        end_at_once()  # before the role is given back: what hangs may still write


async def _watch_width(settings: Settings) -> None:
    """Raises when the topics have become wider: Spark needs a slot for each partition, and gets them at its start."""
    while True:
        await asyncio.sleep(WIDTH_SECONDS)
        await _check_width(settings)


async def _check_width(settings: Settings) -> None:
    found = (await asyncio.to_thread(topics.adopted, settings)).partitions
    if found > settings.partitions:
        raise MorePartitions(f"the topics have {found} partitions now, before {settings.partitions}; it starts again")


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
        if (problem := why_useless(status)) is not None:
            raise DeliversNothing(problem)
        if status != shown:
            lifecycle.status(**status)
            shown = status
        try:
            await asyncio.wait_for(lifecycle.stopping.wait(), LOOK_SECONDS)
        except TimeoutError:
            continue


def _bring_up(service: Service) -> None:
    service.start()
    service.wait_ready(READY_SECONDS)


def _status(services: dict[str, Service]) -> dict[str, Any]:
    return {f"{name}_{key}": value for name, service in services.items() for key, value in service.status().items()}


def why_unready(status: Mapping[str, Any]) -> str | None:
    """Why events are not routed and delivered now; None where they are. Pure."""
    if status.get("router_waiting_for_kafka"):
        return "the router waits for Kafka"
    if stalled := status.get("router_stalled_seconds"):
        return f"routing has stood still for {stalled:g} s"
    ready, tasks = status.get("dispatcher_ready", 0), status.get("dispatcher_tasks", 0)
    return f"{ready} of {tasks} dispatcher tasks deliver" if ready < tasks else None


def why_useless(status: Mapping[str, Any]) -> str | None:
    """Why nothing of what the router writes is delivered, until another router begins. Pure."""
    live = status.get("router_generation")
    if not live or live != status.get("dispatcher_shut_out"):
        return None
    return (
        f"the dispatcher may not deliver what generation {live} routes, because penstock.matched holds the fence of a "
        "later generation whose note is lost; this process ends, and the next one takes a higher number"
    )


async def _before_stop(task: asyncio.Future[Any], stopping: asyncio.Event) -> bool:
    """Waits for a task; False if the stop comes first."""
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return task.done() and not stopping.is_set()
