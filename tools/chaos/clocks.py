"""Experiments in which the clock is set: that of the machine, or that of one part of the stack, as on machines of their
own. Forward and back, by minutes and by more than events are kept.

`clock.c` is compiled and preloaded into all processes of the stack. It moves the time of day, as setting a clock does,
and leaves alone what no person can set. (Debian's libfaketime 0.9.10 breaks waits: Python's `time.sleep` fails under
it, and waits of the JVM return at once.)
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow, NotFound, find
from tools.chaos.plan import COMPONENTS, PYSPARK_DAEMON, SPARK_JVM
from tools.chaos.recovery import clock
from tools.chaos.routes import HELD

if TYPE_CHECKING:
    from tools.chaos.run import Run

SOURCE = Path(__file__).with_name("clock.c")
COMPILER = "cc"
MINUTES, DAYS = 10 * 60, 8 * 24 * 3600
"""`retention_hours` are 7 days."""
OFFSETS = (MINUTES, 0, -MINUTES, 0, DAYS, 0, -DAYS, 0)
"""One after the other, in seconds from the right time."""
STEADY_SECONDS = 10.0
REMOVAL_SECONDS = 75.0
"""After a step forward by days: Kafka looks every minute for what is to be removed."""
MACHINE = "the machine"
PARTS = {
    "clock-machine": MACHINE,
    **{f"clock-{name}": name for name in COMPONENTS},
    "clock-spark-jvm": SPARK_JVM,
    "clock-dispatcher": PYSPARK_DAEMON,  # from which the workers that deliver are forked
}
"""Whose clock each experiment sets."""
NOTICE = "the clock of this machine was set"


class ClockSteps(Experiment):
    """The clock is set again and again, while a paused route has events that wait."""

    routes = (HELD,)

    def __init__(self, name: str) -> None:
        self.name, self._part = name, PARTS[name]
        self.what = f"the clock of {self._part} is set forward and back, by 10 minutes and by 8 days"
        self._clocks = Path()

    def missing(self) -> str | None:
        """What the preloaded library needs."""
        if sys.platform != "linux":
            return "clocks of single processes are set on Linux only"
        if shutil.which(COMPILER) is None:
            return f"{COMPILER} is not installed (Debian: apt-get install gcc libc6-dev)"
        return None

    @contextlib.contextmanager
    def surroundings(self, data: Path) -> Iterator[Mapping[str, str]]:
        """The library, preloaded into all processes."""
        self._clocks = data.parent / "clocks"
        self._clocks.mkdir(parents=True)
        library = data.parent / "clock.so"
        subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
        yield {"LD_PRELOAD": str(library), "CHAOS_CLOCKS": str(self._clocks)}

    async def strike(self, run: Run) -> None:
        """One step after the other, and then the end of the pause."""
        await asyncio.sleep(STEADY_SECONDS)
        await run.changes.pause(HELD, paused=True)
        before = 0
        for offset in OFFSETS:
            await asyncio.sleep(STEADY_SECONDS)
            seen: list[str] = []
            setting = functools.partial(self._set, run, offset, offset - before, seen)
            try:
                await run.step(named(self._part, before, offset), setting, lambda: "; ".join(seen))  # noqa: B023
            except NotFound as problem:
                run.problem(str(problem))
                return
            before = offset
        await run.changes.pause(HELD, paused=False)
        await asyncio.sleep(STEADY_SECONDS)

    async def _set(self, run: Run, offset: int, by: int, seen: list[str]) -> Blow:
        printed = run.stack.printed()
        name = "all" if self._part == MACHINE else str((await find(self._part, run.stack)).pid)
        set_clock(self._clocks, name, offset)
        if by == DAYS:
            await asyncio.sleep(REMOVAL_SECONDS)
        elif abs(by) == DAYS:
            await asyncio.sleep(STEADY_SECONDS)
        new = run.stack.printed().removeprefix(printed).decode().splitlines()
        seen += [line.strip() for line in new if NOTICE in line]
        if self._part == MACHINE and abs(by) == DAYS and not seen:
            run.problem(f"nothing says that the clock was set by {span(by)}")
        now = clock()
        return Blow(now, now)


def set_clock(clocks: Path, name: str, offset: int) -> None:
    """Takes effect at once in every process that has the file mapped."""
    with (clocks / name).open("r+b") as file:
        file.write(struct.pack("q", offset))


def named(part: str, before: int, offset: int) -> str:
    """The step from one offset to another."""
    by = offset - before
    way = "forward" if by > 0 else "back"
    return f"the clock of {part} set {way} by {span(by)}{'' if offset else ', to the right time'}"


def span(seconds: int) -> str:
    """A time in words."""
    days, minutes = timedelta(seconds=abs(seconds)).days, abs(seconds) // 60
    return f"{days} days" if days else f"{minutes} minutes"
