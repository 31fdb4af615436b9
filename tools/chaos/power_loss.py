"""The experiment in which the machine loses its power: what was not synced is gone, and everything starts again."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from penstock.contract.topics import TOPICS
from tools.chaos import disks
from tools.chaos.disks import Disk
from tools.chaos.experiments import Experiment
from tools.chaos.faults import Blow, gone
from tools.chaos.freezes import stopped_family
from tools.chaos.recovery import clock

if TYPE_CHECKING:
    from tools.chaos.run import Run

DISK_MIB = 2048
LOSSES = 3
STEADY_SECONDS = 20.0
"""Of load before each loss. ext4 writes what is not synced after up to 30 s."""


class PowerLoss(Experiment):
    """The data folder lies on a disk of its own, which is cut off while the stack runs."""

    name = "power-loss"
    what = f"the machine loses its power {LOSSES} times: what the data folder's disk had not synced is lost"
    mounts = True

    def __init__(self) -> None:
        self._disk = Disk(Path(), Path())

    def missing(self) -> str | None:
        """What mounting needs."""
        return disks.missing()

    @contextlib.contextmanager
    def surroundings(self, data: Path) -> Iterator[Mapping[str, str]]:
        """The disk, at the data folder."""
        with disks.mounted(data, data.parent / "disk.ext4", DISK_MIB) as self._disk:
            yield {}

    async def strike(self, run: Run) -> None:
        """Loses power again and again, with load in between."""
        for number in range(LOSSES):
            await asyncio.sleep(STEADY_SECONDS)
            lost: list[str] = []
            with run.supervisor_may_end():
                cut = functools.partial(self._cut, run, number, lost)
                await run.step(f"power lost, number {number + 1}", cut, lambda: "; ".join(lost))  # noqa: B023
        await asyncio.sleep(STEADY_SECONDS)

    async def _cut(self, run: Run, number: int, lost: list[str]) -> Blow:
        data = self._disk.at
        synced, unsynced = data / f"synced-{number}", data / f"unsynced-{number}"
        _write(synced, sync=True)
        _write(unsynced, sync=False)
        stopped = stopped_family(psutil.Process(run.stack.pid))  # at one moment, as power fails
        struck = clock()
        before = log_bytes(data)
        self._disk.lose_power()
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await gone(stopped)
        await run.stack.ended()
        await asyncio.to_thread(self._disk.unmount)
        await asyncio.to_thread(self._disk.mount)
        if not synced.exists() or not synced.stat().st_size:
            run.problem("a file that was synced is gone: this disk does not do what it should")
        if unsynced.exists() and unsynced.stat().st_size:
            run.problem("a file that was not synced is still there: no power was lost")
        after = log_bytes(data)
        gone_bytes = {topic: size - after.get(topic, 0) for topic, size in before.items()}
        lost += [f"{topic} lost {count:,} bytes" for topic, count in gone_bytes.items() if count]
        over = clock()
        await run.stack.start()
        return Blow(struck, over)


def log_bytes(data: Path) -> dict[str, int]:
    """How much is in the logs of each topic."""
    log = data / "kafka" / "log"
    return {topic.name: sum(file.stat().st_size for file in log.glob(f"{topic.name}-*/*.log")) for topic in TOPICS}


def _write(path: Path, *, sync: bool) -> None:
    with path.open("wb") as file:
        file.write(b"x" * 4096)
        file.flush()
        if sync:
            os.fsync(file.fileno())
