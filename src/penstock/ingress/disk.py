"""Whether the disk has room for more events."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from penstock.observability.logs import describe

CHECK_SECONDS = 1.0

log = structlog.get_logger()


def free_bytes(folder: Path) -> int:
    """What is free on the disk of a folder."""
    return shutil.disk_usage(folder).free


class DiskWatch:
    """Looks at the free space of disks that the stack writes to. A limit of 0 asks for none."""

    def __init__(self, folders: Sequence[Path], min_free_mib: int, free: Callable[[Path], int] = free_bytes) -> None:
        self._folders, self._min_free, self._free = folders, min_free_mib * 1024 * 1024, free
        self.full = False

    def check(self) -> None:
        """Looks once."""
        if not self._min_free:
            self.full = False
            return
        try:
            free, folder = min((self._free(folder), str(folder)) for folder in self._folders)
        except OSError as error:
            log.error("the free space of the disk cannot be told", folder=error.filename, error=describe(error))
            return
        full = free < self._min_free
        if full and not self.full:
            log.error("the disk is nearly full: events are refused", folder=folder, free_mib=free >> 20)
        elif self.full and not full:
            log.info("the disk has room again: events are accepted", folder=folder, free_mib=free >> 20)
        self.full = full

    async def run(self) -> None:
        """Looks every second until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(CHECK_SECONDS)
