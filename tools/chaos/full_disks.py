"""Experiments in which a disk is full: nearly, so that no event may be accepted any more, and then to the last byte."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.chaos import disks
from tools.chaos.disks import Disk
from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow, find
from tools.chaos.plan import SPARK_JVM
from tools.chaos.recovery import clock

if TYPE_CHECKING:
    from tools.chaos.run import Run

MIN_FREE_MIB = 100
NEARLY_FULL_SECONDS = 15.0
FULL_SECONDS = 60.0
REFUSED_SECONDS = 10.0
"""Within which the ingress has to refuse events."""
AGAIN_SECONDS = 0.5
"""What is removed meanwhile is taken as well."""
STEADY_SECONDS = 10.0
INSUFFICIENT_STORAGE = "507"
SIGNS = re.compile(r"disk is|No space left|MiB are free|make room|free some space", re.IGNORECASE)


class FullDisk(Experiment):
    """A part of the data folder lies on a disk of its own, which is filled."""

    settings = f"min_free_disk_mib = {MIN_FREE_MIB}\nretention_mib = 64\n"
    mounts = True

    def __init__(self, name: str, part: str, mib: int, *, events: bool) -> None:
        self.name, self._part, self._mib, self._events = name, part, mib, events
        self.what = (
            f"the disk under {part or 'the data folder'} is full for {FULL_SECONDS:g} s, and then has room again"
        )
        self._disk = Disk(Path(), Path())

    def missing(self) -> str | None:
        """What mounting needs."""
        return disks.missing()

    @contextlib.contextmanager
    def surroundings(self, data: Path) -> Iterator[Mapping[str, str]]:
        """The disk, at its part of the data folder."""
        with disks.mounted(data / self._part, data.parent / "disk.ext4", self._mib) as self._disk:
            yield {}

    async def strike(self, run: Run) -> None:
        """Nearly full, where events lie there, and then full."""
        await asyncio.sleep(STEADY_SECONDS)
        seen: list[str] = []
        if self._events:
            nearly = functools.partial(self._fill, run, MIN_FREE_MIB // 2, NEARLY_FULL_SECONDS, seen)
            await run.step(f"{MIN_FREE_MIB // 2} MiB free for {NEARLY_FULL_SECONDS:g} s", nearly, seen.pop)
            await asyncio.sleep(STEADY_SECONDS)
        full = functools.partial(self._fill, run, 0, FULL_SECONDS, seen)
        await run.step(f"full for {FULL_SECONDS:g} s", full, seen.pop)
        await asyncio.sleep(STEADY_SECONDS)

    async def _fill(self, run: Run, leave_mib: int, seconds: float, seen: list[str]) -> Blow:
        refused, before = Counter(run.books.sent.refused), written(run)
        filling = asyncio.create_task(self._keep_full(leave_mib))
        try:
            if not self._events:
                (await find(SPARK_JVM, run.stack)).kill()  # what runs needs no disk; what starts does
            await asyncio.sleep(seconds)
            answers = Counter(run.books.sent.refused) - refused
            if self._events and not answers[INSUFFICIENT_STORAGE]:
                run.problem(f"with {leave_mib} MiB free no event was refused with {INSUFFICIENT_STORAGE}")
            seen.append(await self._said(run, before, answers))
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            self._disk.make_room()
        now = clock()
        return Blow(now, now)

    async def _keep_full(self, leave_mib: int) -> None:
        while True:
            await asyncio.to_thread(self._disk.fill, leave_mib)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _said(self, run: Run, before: dict[str, bytes], answers: Counter[str]) -> str:
        """Where the stack says what is wrong. A problem where it does so nowhere."""
        status = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("penstock")),
            *("status", "--data-dir", str(run.stack.data)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        shown, _ = await status.communicate()
        new = {where: text.removeprefix(before.get(where, b"")) for where, text in written(run).items()}
        told = {"penstock status": shown, **new}
        found = [f"{where}: {line.strip()[:160]}" for where, text in told.items() if (line := last_sign(text.decode()))]
        if not found:
            run.problem("nothing says that the disk is full")
        counted = ", ".join(f"{status}: {count}" for status, count in sorted(answers.items())) or "none"
        return " / ".join([f"refused: {counted}", *found])


def written(run: Run) -> dict[str, bytes]:
    """What the stack has written so far, on the terminal and into its logs."""
    logs = {f"logs/{path.name}": path.read_bytes() for path in (run.stack.data / "logs").glob("*.log")}
    return {"the terminal": run.stack.printed(), **logs}


def last_sign(text: str) -> str | None:
    """The last line that speaks of a full disk."""
    return next((line for line in reversed(text.splitlines()) if SIGNS.search(line)), None)
