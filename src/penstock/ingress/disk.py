"""Whether the disk has room for more events."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import structlog

from penstock.observability.logs import describe

CHECK_SECONDS = 1.0

log = structlog.get_logger()


class DiskWatch:
    """Looks at the free space of the disk that Kafka writes to. A limit of 0 asks for none."""

    def __init__(self, folder: Path, min_free_mib: int) -> None:
        self._folder, self._min_free = folder, min_free_mib * 1024 * 1024
        self.full = False

    def check(self) -> None:
        """Looks once."""
        if not self._min_free:
            self.full = False
            return
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            log.error("the free space of the disk cannot be told", folder=str(self._folder), error=describe(error))
            return
        full = free < self._min_free
        if full and not self.full:
            log.error("the disk is nearly full: events are refused", folder=str(self._folder), free_mib=free >> 20)
        elif self.full and not full:
            log.info("the disk has room again: events are accepted", folder=str(self._folder), free_mib=free >> 20)
        self.full = full

    async def run(self) -> None:
        """Looks every second until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(CHECK_SECONDS)
