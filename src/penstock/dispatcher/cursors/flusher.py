"""Writing down what a task has done, partition by partition, again and again.

A flush of a partition is one transaction of its own, begun when the one before is committed. All of them begin together
as long as Kafka takes them all. One that takes long, because its partition has no leader, say, is waited for beside
those of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import structlog

from penstock.dispatcher.cursors.cursor_store import Entry
from penstock.kafka.threads import Owner

log = structlog.get_logger()

STUCK_SECONDS = 5.0
"""A partition counts as one that cannot be written when a flush of it takes longer."""


class Flushed(Protocol):
    """What has changes to write down."""

    unwritable: set[int]

    def collect(self, final: bool = False, only: Iterable[int] | None = None) -> dict[int, list[Entry]]:
        """What has to be written down, by partition."""

    def pump(self) -> None:
        """Starts whatever may start."""


Commit = Callable[[list[Entry]], Awaitable[None]]
"""Writes all entries or none. Waits for a Kafka that is away."""


class Flusher:
    """The flushes of a task."""

    def __init__(self, flushed: Flushed, commits: Mapping[int, Commit], owner: Owner, period: float) -> None:
        """Flushes partitions every `period` seconds, by their `commits`."""
        self._flushed, self._commits, self._owner, self._period = flushed, commits, owner, period
        self._partitions: list[int] = []
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._since: dict[int, float] = {}
        """When the flushes under way began."""
        self._loop = asyncio.get_running_loop()

    def add(self, partitions: Iterable[int]) -> None:
        """These partitions are flushed from now on."""
        self._partitions += partitions

    async def run(self) -> None:
        """At a steady pace: a slow write shortens the pause after it. Never returns."""
        pause = self._period
        while True:
            begun = self._loop.time()
            await asyncio.sleep(pause)
            self._begin()
            await self._wait()
            self._flushed.pump()
            pause = max(self._period / 10, self._period - (self._loop.time() - begun - pause))

    async def finish(self) -> None:
        """A last time, in each partition after the flush that is under way there."""
        # All of them are waited for, so that no two flushes ever meet in one partition.
        for failure in await asyncio.gather(*map(self._finish, self._partitions), return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _finish(self, partition: int) -> None:
        if (under_way := self._under_way.pop(partition, None)) is not None:
            await under_way
        self._owner.check()
        if entries := self._flushed.collect(final=True, only=[partition])[partition]:
            await self._commits[partition](entries)

    def _begin(self) -> None:
        self._owner.check()  # after a failure the cursors may say more than was done
        now = self._loop.time()
        free = [partition for partition in self._partitions if partition not in self._under_way]
        for partition, entries in self._flushed.collect(only=free).items():
            if entries:
                # One that has begun is finished even if the task is told to stop.
                self._under_way[partition] = self._loop.create_task(self._commit(partition, entries))
                self._since[partition] = now

    async def _commit(self, partition: int, entries: list[Entry]) -> None:
        await self._commits[partition](entries)

    async def _wait(self) -> None:
        """For what is under way, but not longer than a period."""
        if not self._under_way:
            return
        await asyncio.wait(self._under_way.values(), timeout=self._period)
        for partition, task in list(self._under_way.items()):
            if task.done():
                del self._under_way[partition]
                task.result()
        self._note_unwritable()

    def _note_unwritable(self) -> None:
        before, limit = self._flushed.unwritable, self._loop.time() - STUCK_SECONDS
        now = {partition for partition in self._under_way if self._since[partition] < limit}
        for partition in now - before:
            log.error("cursors and attempts of a partition cannot be written for now", partition=partition)
        for partition in before - now:
            log.info("cursors and attempts of a partition are written again", partition=partition)
        self._flushed.unwritable = now
