"""Whether events can be stored: whether Kafka takes them, and whether the disk has space.

Confirmed events show that Kafka takes them. Without any, Kafka is asked for the leaders of the partitions, so that an
idle ingress notices an outage as well. An event that could not be stored counts for a while although Kafka responds,
because it may respond and yet store nothing. After that the ingress is ready again, and the next event shows whether it
works.
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
RESPONSE_SECONDS = 2.0
"""Time for Kafka to respond."""
FAILURE_SECONDS = 5.0
"""How long an event that could not be stored counts."""

log = structlog.get_logger()


class EventLog(Protocol):
    """The log that events are written to."""

    stored_at: float
    failed_at: float

    async def is_available(self, seconds: float) -> bool:
        """Whether Kafka responds within so many seconds, and every partition has a leader."""


class KafkaWatch:
    """Checks once a second whether Kafka takes events."""

    def __init__(self, written: EventLog) -> None:
        self._written = written
        self.unreachable = False

    async def check(self) -> None:
        """Checks once."""
        now = asyncio.get_running_loop().time()
        unreachable = await self._is_unreachable(now)
        if unreachable and not self.unreachable:
            log.error("Kafka takes no events; the ingress is not ready")
        elif self.unreachable and not unreachable:
            log.info("Kafka takes events again; the ingress is ready")
        self.unreachable = unreachable

    async def run(self) -> None:
        """Checks every second until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(KAFKA_CHECK_SECONDS)

    async def _is_unreachable(self, now: float) -> bool:
        written = self._written
        if written.stored_at > max(written.failed_at, now - RESPONSE_SECONDS):
            return False
        if not await written.is_available(RESPONSE_SECONDS):
            # Events that were confirmed meanwhile are newer than the check.
            return written.stored_at < now
        return written.failed_at > max(written.stored_at, now - FAILURE_SECONDS)


DISK_CHECK_SECONDS = 1.0


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder."""
    return shutil.disk_usage(folder).free


class DiskWatch:
    """Checks the free space of the disks that the stack writes to. A limit of 0 turns the check off."""

    def __init__(self, folders: Sequence[Path], min_free_mib: int, free: Callable[[Path], int] = free_bytes) -> None:
        self._folders, self._min_free, self._free = folders, min_free_mib * 1024 * 1024, free
        self.full = False

    def check(self) -> None:
        """Checks once."""
        if not self._min_free:
            self.full = False
            return
        try:
            free, folder = min((self._free(folder), str(folder)) for folder in self._folders)
        except OSError as error:
            log.error("the free space of the disk cannot be read", folder=error.filename, error=describe(error))
            return
        full = free < self._min_free
        if full and not self.full:
            log.error("the disk is nearly full: events are refused", folder=folder, free_mib=free >> 20)
        elif self.full and not full:
            log.info("the disk has space again: events are accepted", folder=folder, free_mib=free >> 20)
        self.full = full

    async def run(self) -> None:
        """Checks every second until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(DISK_CHECK_SECONDS)
