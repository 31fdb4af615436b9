"""What is done to the Spark that tasks run on: an executor and a Worker are killed, an executor is frozen and wakes."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import psutil

from tools.chaos.recovery import clock
from tools.cluster.blows import Blow
from tools.cluster.processes import Program, freeze, thaw
from tools.cluster.standalone_spark import StandaloneSpark

FROZEN_SECONDS = 45.0
EXECUTOR_SECONDS = 240.0
LOOK_SECONDS = 0.2
WORKER_AWAY_SECONDS = 15.0


class SparkFaults:
    """Strikes."""

    def __init__(self, spark: StandaloneSpark, subscribers: int) -> None:
        """`subscribers` is the port that all of them listen on."""
        self._spark, self._subscribers = spark, subscribers

    async def kill_executor(self) -> Blow:
        """kill -9 of the executor that delivers."""
        worker, executor = await self._delivering()
        blow = Blow("killed", f"executor on {worker.name}", clock())
        executor.kill()
        return blow

    async def freeze_executor(self) -> Blow:
        """The executor that delivers is frozen with its Python, and wakes when others do its work."""
        worker, executor = await self._delivering()
        whole = [executor, *executor.children(recursive=True)]
        blow = Blow("frozen", f"executor on {worker.name}", clock())
        frozen = freeze(whole)

        async def mend() -> None:
            await blow.lasts(FROZEN_SECONDS)
            thaw(frozen)

        blow.mended = mend
        return blow

    async def kill_worker(self) -> Blow:
        """kill -9 of the Worker that sees the project's files, with its executors: the other has to do alone."""
        worker = self._spark.workers[0]
        blow = Blow("killed", worker.name, clock())
        for one in worker.whole():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)

        async def mend() -> None:
            await blow.lasts(WORKER_AWAY_SECONDS)
            await worker.ended(30)
            await worker.start()

        blow.mended = mend
        return blow

    async def _delivering(self) -> tuple[Program, psutil.Process]:
        """The executor that has a connection to the subscribers, and its Worker."""
        async with asyncio.timeout(EXECUTOR_SECONDS):
            while True:
                for worker in self._spark.workers:
                    for executor in self._spark.executors(worker):
                        if speaks_with(executor, self._subscribers):
                            return worker, executor
                await asyncio.sleep(LOOK_SECONDS)


def speaks_with(executor: psutil.Process, port: int) -> bool:
    """Whether one of its Python processes is connected to the port; one that is frozen may have been before."""
    with contextlib.suppress(psutil.Error):
        for one in executor.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(
                    link.raddr and link.raddr.port == port and link.status == psutil.CONN_ESTABLISHED
                    for link in one.net_connections("tcp")
                ):
                    return True
    return False
