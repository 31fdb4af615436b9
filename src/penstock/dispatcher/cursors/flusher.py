"""Flushes: writing what a task has done to Kafka, partition by partition.

A flush of a partition is one transaction, begun when the one before is committed. The flushes of all partitions begin
together as long as Kafka takes them all; one that takes long, because its partition has no leader for example, does not
delay those of the others.

`Unflushed` gathers what has changed in a partition since the last flush. The order of its records matters only if the
log loses its end in the middle of a flush: what a cursor counts as taken must be on disk before the cursor, so
deliveries and payloads are written first, then cursors, then the tail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import msgspec
import structlog

from penstock.contract import attempts, topics
from penstock.contract.attempts import AttemptRecord
from penstock.dispatcher.cursors import cursor_store
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding, Stage, encode, encode_delivery
from penstock.dispatcher.cursors.partition import PartitionCursors
from penstock.kafka.transactions import Entry
from penstock.runtime.tasks import TaskScope

log = structlog.get_logger()

STUCK_SECONDS = 5.0
"""A partition counts as unwritable when a flush of it takes longer."""


class Flushed(Protocol):
    """The source of changes."""

    unwritable: set[int]

    def collect(self, final: bool = False, only: Iterable[int] | None = None) -> dict[int, list[Entry]]:
        """What has to be written, by partition."""

    def pump(self) -> None:
        """Starts whatever may start."""


Commit = Callable[[list[Entry]], Awaitable[None]]
"""Writes all entries or none. Waits while Kafka is unreachable."""


class Flusher:
    """The flushes of a task."""

    def __init__(self, flushed: Flushed, commits: Mapping[int, Commit], scope: TaskScope, period: float) -> None:
        """Flushes partitions every `period` seconds, by their `commits`."""
        self._flushed, self._commits, self._scope, self._period = flushed, commits, scope, period
        self._partitions: list[int] = []
        self._in_progress: dict[int, asyncio.Task[None]] = {}
        self._since: dict[int, float] = {}
        """When the flushes in progress began."""
        self._loop = asyncio.get_running_loop()

    def add(self, partitions: Iterable[int]) -> None:
        """These partitions are flushed from now on."""
        self._partitions += partitions

    async def run(self) -> None:
        """Flushes at a steady pace: a slow write shortens the pause after it. Never returns."""
        pause = self._period
        while True:
            begun = self._loop.time()
            await asyncio.sleep(pause)
            self._begin()
            await self._wait()
            self._flushed.pump()
            pause = max(self._period / 10, self._period - (self._loop.time() - begun - pause))

    async def finish(self) -> None:
        """Flushes each partition a last time, after the flush that is in progress there."""
        # All of them are awaited, so that two flushes of one partition never overlap.
        for failure in await asyncio.gather(*map(self._finish, self._partitions), return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _finish(self, partition: int) -> None:
        if (under_way := self._in_progress.pop(partition, None)) is not None:
            await under_way
        self._scope.check()
        if entries := self._flushed.collect(final=True, only=[partition])[partition]:
            await self._commits[partition](entries)

    def _begin(self) -> None:
        self._scope.check()  # after a failure the cursors may count more than was done
        now = self._loop.time()
        free = [partition for partition in self._partitions if partition not in self._in_progress]
        for partition, entries in self._flushed.collect(only=free).items():
            if entries:
                # One that has begun is finished even if the task is stopped.
                self._in_progress[partition] = self._loop.create_task(self._commit(partition, entries))
                self._since[partition] = now

    async def _commit(self, partition: int, entries: list[Entry]) -> None:
        await self._commits[partition](entries)

    async def _wait(self) -> None:
        """Waits for the flushes in progress, but not longer than a period."""
        if not self._in_progress:
            return
        await asyncio.wait(self._in_progress.values(), timeout=self._period)
        for partition, task in list(self._in_progress.items()):
            if task.done():
                del self._in_progress[partition]
                task.result()
        self._note_unwritable()

    def _note_unwritable(self) -> None:
        before, limit = self._flushed.unwritable, self._loop.time() - STUCK_SECONDS
        now = {partition for partition in self._in_progress if self._since[partition] < limit}
        for partition in now - before:
            log.error("cursors and attempts of a partition cannot be written", partition=partition)
        for partition in before - now:
            log.info("cursors and attempts of a partition are written again", partition=partition)
        self._flushed.unwritable = now


TAIL_ONLY_SECONDS = 5.0
"""How often a tail that moved over markers only is written: there is one every few seconds."""

Ident = tuple[str, int]
"""Route and origin."""


class Unflushed:
    """Gathers what the next flush of a partition writes."""

    def __init__(self, cursors: PartitionCursors) -> None:
        self._cursors = cursors
        self.attempts: list[AttemptRecord] = []
        self._payloads: dict[Ident, bytes | None] = {}
        self._deliveries: dict[Ident, Outstanding | None] = {}
        self._removed: dict[str, None] = {}
        self._tail: int | None = None
        self._tail_matters = False
        self._tail_at = 0.0

    def keep_payload(self, route: str, origin: int, value: bytes) -> None:
        """A delivery has something to send in its next stage."""
        self._payloads[route, origin] = value

    def drop_payload(self, route: str, origin: int) -> None:
        """It is no longer needed."""
        self._payloads[route, origin] = None

    def changed(self, cursor: Cursor, delivery: Outstanding) -> None:
        """A delivery continues: in another stage, with another attempt, at another time."""
        if cursor.has_record(delivery.origin):
            self._deliveries[cursor.route, delivery.origin] = delivery
        else:
            cursor.move(delivery.origin)

    def finished(self, cursor: Cursor, origin: int) -> None:
        """A delivery has ended, whatever its outcome."""
        if cursor.has_record(origin):
            self._deliveries[cursor.route, origin] = None
        cursor.finish(origin)

    def orphaned(self, deliveries: Iterable[Ident], payloads: Iterable[Ident]) -> None:
        """Records of deliveries that have ended, or that their cursor does not hold."""
        self._deliveries.update(dict.fromkeys(deliveries))
        self._payloads.update(dict.fromkeys(payloads))

    def removed(self, cursor: Cursor) -> None:
        """The route is gone: its cursor is deleted, with the deliveries and payloads that have records."""
        self._removed[cursor.route] = None
        for delivery in cursor.outstanding.values():
            if cursor.has_record(delivery.origin):
                self._deliveries[cursor.route, delivery.origin] = None
            if delivery.stage is not Stage.SUBSCRIBER:
                self._payloads[cursor.route, delivery.origin] = None

    def tail_moved(self, with_routes: bool) -> None:
        """The tail has read a record."""
        self._tail_matters = self._tail_matters or with_routes

    def entries(self, now: float, final: bool = False) -> list[Entry]:
        """All changes as records; they no longer count as changes."""
        entries = [Entry(topics.ATTEMPTS, attempt.route, attempts.encode(attempt)) for attempt in self.attempts]
        self.attempts = []
        changed = list(self._cursors.changed)
        self._cursors.changed.clear()
        for cursor in changed:
            self._removed.pop(cursor.route, None)  # a route that was added again after it was removed
            for delivery in cursor.settle():
                self._deliveries[cursor.route, delivery.origin] = delivery
        entries += self._of_deliveries()
        partition = self._cursors.partition
        for cursor in changed:
            entries.append(Entry(topics.CURSORS, cursor_store.cursor_key(cursor.route, partition), encode(cursor)))
        for route in self._removed:
            entries.append(Entry(topics.CURSORS, cursor_store.cursor_key(route, partition), None))
        self._removed = {}
        entries += self._of_tail(now, worthwhile=bool(entries) or final)
        return entries

    def _of_deliveries(self) -> Iterable[Entry]:
        partition = self._cursors.partition
        for (route, origin), payload in self._payloads.items():
            yield Entry(topics.CURSORS, cursor_store.payload_key(route, partition, origin), payload)
        for (route, origin), delivery in self._deliveries.items():
            value = None if delivery is None else encode_delivery(delivery)
            yield Entry(topics.CURSORS, cursor_store.delivery_key(route, partition, origin), value)
        self._payloads, self._deliveries = {}, {}

    def _of_tail(self, now: float, *, worthwhile: bool) -> Iterable[Entry]:
        tail = self._cursors.position
        if tail is None or tail.next == self._tail:
            return
        if worthwhile or self._tail_matters or now - self._tail_at > TAIL_ONLY_SECONDS:
            yield Entry(topics.CURSORS, cursor_store.tail_key(self._cursors.partition), msgspec.json.encode(tail))
            self._tail, self._tail_at, self._tail_matters = tail.next, now, False
