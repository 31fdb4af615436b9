"""Whether Kafka takes events, asked even while no producer sends any.

Events that are confirmed are proof enough. Without any, Kafka is asked who leads the partitions, so that an idle
ingress notices as well. An event that could not be stored counts for a while although Kafka answers: it may answer and
yet store nothing. After that while the ingress is ready again, so that the next event can tell.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from penstock.observability.logs import describe

KAFKA_CHECK_SECONDS = 1.0
ANSWER_SECONDS = 2.0
"""Time for Kafka to answer."""
FAILURE_SECONDS = 5.0
"""How long an event that could not be stored counts."""

log = structlog.get_logger()


class WrittenLog(Protocol):
    """What is looked at: the log that events are written to."""

    stored_at: float
    failed_at: float

    async def answers(self, seconds: float) -> bool:
        """Whether Kafka answers within so many seconds."""


class KafkaWatch:
    """Looks at the log once a second."""

    def __init__(self, written: WrittenLog) -> None:
        self._written = written
        self.away = False

    async def check(self) -> None:
        """Looks once."""
        now = asyncio.get_running_loop().time()
        away = await self._is_away(now)
        if away and not self.away:
            log.error("Kafka takes no events; the ingress is not ready")
        elif self.away and not away:
            log.info("Kafka takes events again; the ingress is ready")
        self.away = away

    async def run(self) -> None:
        """Looks every second until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(KAFKA_CHECK_SECONDS)

    async def _is_away(self, now: float) -> bool:
        written = self._written
        if written.stored_at > max(written.failed_at, now - ANSWER_SECONDS):
            return False
        if not await written.answers(ANSWER_SECONDS):
            # What was confirmed meanwhile is newer than the question.
            return written.stored_at < now
        return written.failed_at > max(written.stored_at, now - FAILURE_SECONDS)


# Whether the disk has room for more events.

DISK_CHECK_SECONDS = 1.0


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
            await asyncio.sleep(DISK_CHECK_SECONDS)
