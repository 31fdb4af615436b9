"""What is done to the Spark that tasks run on: an executor and a Worker are killed, an executor is frozen and wakes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable

import psutil

from chaos.recovery import clock
from cluster.faults import Blow
from cluster.processes import Program, thaw
from cluster.standalone_spark import StandaloneSpark

FROZEN_SECONDS = 45.0
EXECUTOR_SECONDS = 60.0


class SparkFaults:
    """Strikes."""

    def __init__(self, spark: StandaloneSpark) -> None:
        self._spark = spark

    def strikes(self) -> dict[str, Callable[[], Awaitable[Blow]]]:
        """All, by the names under which they are asked for."""
        return {"executor": self.kill_executor, "frozen-executor": self.freeze_executor, "worker": self.kill_worker}

    async def kill_executor(self) -> Blow:
        """kill -9 of the executor that delivers."""
        _, executor = await self._delivering()
        blow = Blow("killed", "executor", clock())
        executor.kill()
        return blow

    async def freeze_executor(self) -> Blow:
        """The executor that delivers is frozen with its Python, and wakes when others do its work."""
        worker, executor = await self._delivering()
        frozen = [executor, *executor.children(recursive=True)]
        blow = Blow("frozen", f"executor of {worker.name}", clock())
        for one in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()

        async def mend() -> None:
            await asyncio.sleep(max(0.0, blow.struck + FROZEN_SECONDS - clock()))
            thaw(frozen)

        blow.mended = mend
        return blow

    async def kill_worker(self) -> Blow:
        """kill -9 of the Worker that sees the project's files, with its executor: the other has to do alone."""
        worker = self._spark.workers[0]
        blow = Blow("killed", worker.name, clock())
        for one in (*self._spark.executors(worker), *worker.whole()):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)

        async def mend() -> None:
            await worker.ended(10)
            await worker.start()

        blow.mended = mend
        return blow

    async def _delivering(self) -> tuple[Program, psutil.Process]:
        """The executor that runs a Python process, and its Worker."""
        async with asyncio.timeout(EXECUTOR_SECONDS):
            while True:
                for worker in self._spark.workers:
                    for executor in self._spark.executors(worker):
                        if _runs_python(executor):
                            return worker, executor
                await asyncio.sleep(0.2)


def _runs_python(executor: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        # A daemon that forks a process for each task.
        return any(one.children() for one in executor.children())
    return False
