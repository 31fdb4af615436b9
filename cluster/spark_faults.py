"""What is done to the Spark that tasks run on: an executor and a Worker are killed, an executor is frozen and wakes."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import psutil

from chaos.recovery import clock
from cluster.blows import Blow
from cluster.processes import Program, freeze, thaw
from cluster.standalone_spark import StandaloneSpark

FROZEN_SECONDS = 45.0
EXECUTOR_SECONDS = 240.0
SAMPLE_SECONDS = 2.0
WORKER_AWAY_SECONDS = 15.0


class SparkFaults:
    """Strikes."""

    def __init__(self, spark: StandaloneSpark) -> None:
        self._spark = spark

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
            await asyncio.sleep(max(0.0, blow.struck + FROZEN_SECONDS - clock()))
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
            await asyncio.sleep(max(0.0, blow.struck + WORKER_AWAY_SECONDS - clock()))
            await worker.ended(30)
            await worker.start()

        blow.mended = mend
        return blow

    async def _delivering(self) -> tuple[Program, psutil.Process]:
        """The executor whose Python does the most, and its Worker: those of a pipeline that stands by do nothing."""
        async with asyncio.timeout(EXECUTOR_SECONDS):
            while True:
                before = {one.pid: _python_seconds(one) for _, one in self._executors()}
                await asyncio.sleep(SAMPLE_SECONDS)
                work = [
                    (_python_seconds(executor) - before[executor.pid], worker, executor)
                    for worker, executor in self._executors()
                    if executor.pid in before
                ]
                seconds, worker, executor = max(work, key=lambda one: one[0], default=(0.0, None, None))
                if seconds > 0 and worker is not None and executor is not None:
                    return worker, executor

    def _executors(self) -> list[tuple[Program, psutil.Process]]:
        return [(worker, one) for worker in self._spark.workers for one in self._spark.executors(worker)]


def _python_seconds(executor: psutil.Process) -> float:
    """Processor time of the Python processes of an executor, all of which it has started by way of one."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        for one in executor.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                total += times.user + times.system
    return total
