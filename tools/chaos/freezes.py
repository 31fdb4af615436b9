"""Experiments in which a part of the stack, or all of it, stands still for minutes.

That is what a machine does that swaps, a virtual machine that is moved, a debugger, a laptop that sleeps.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

import psutil

from tools.chaos import victims
from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow, NotFound, find, freeze
from tools.chaos.plan import COMPONENTS, DISPATCHER_WORKER, PYSPARK_DAEMON, SPARK_JVM, SUPERVISOR

if TYPE_CHECKING:
    from tools.chaos.run import Run

FROZEN_SECONDS = (180.0, 360.0)
STEADY_SECONDS = 10.0
"""Of load before and after each freeze: what gives up because of it may do so later."""
WHOLE = "the whole stack"
PARTS = {
    **{f"freeze-{name}": name for name in (*COMPONENTS, SUPERVISOR)},
    "freeze-spark-jvm": SPARK_JVM,
    "freeze-pyspark-daemon": PYSPARK_DAEMON,
    "freeze-dispatcher-worker": DISPATCHER_WORKER,
    "freeze-stack": WHOLE,
}
"""What each experiment freezes."""


class Freeze(Experiment):
    """SIGSTOP, minutes, SIGCONT."""

    def __init__(self, name: str, seconds: tuple[float, ...] = FROZEN_SECONDS) -> None:
        self.name, self._part, self._seconds = name, PARTS[name], seconds
        self.what = (
            f"{self._part} stands still for {' and '.join(f'{one / 60:g}' for one in seconds)} minutes (SIGSTOP)"
        )

    async def strike(self, run: Run) -> None:
        """One freeze after the other."""
        for seconds in self._seconds:
            await asyncio.sleep(STEADY_SECONDS)
            try:
                await run.step(f"{self._part} frozen for {seconds:g} s", functools.partial(self._freeze, run, seconds))
            except NotFound as problem:
                run.problem(str(problem))
                return
        await asyncio.sleep(STEADY_SECONDS)

    async def _freeze(self, run: Run, seconds: float) -> Blow:
        if self._part != WHOLE:
            return await freeze([await find(self._part, run.stack)], seconds)
        return await freeze(stopped_family(psutil.Process(run.stack.pid)), seconds)


def stopped_family(process: psutil.Process) -> list[psutil.Process]:
    """The process and everything below it, all of it stopped: looked at until nothing new is there."""
    stopped: list[psutil.Process] = []
    while new := [one for one in victims.family(process) if one not in stopped and victims.alive(one)]:
        for one in new:
            try:
                one.suspend()
            except psutil.NoSuchProcess:
                continue
            stopped.append(one)
    return stopped
