"""Sends the events of PingSources: one loop with one agenda for all of them, and a task per source while events wait.

Every tick goes through the same steps: it is due, it is stored, its event is sent until the sink accepts it, and it is
deleted. What a stop or a crash interrupts is resumed at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sqlite3
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from penstock.events.event import CloudEvent
from penstock.observability.logs import describe
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.pingsource import EVENT_TYPE, PingSource
from penstock.resources.schedules import CronSchedule
from penstock.runtime.lifecycle import first
from penstock.runtime.tasks import TaskScope
from penstock.runtime.times import rfc3339_of
from penstock.sources.deliveries import Letter, Send, SourceDeliveries
from penstock.sources.ticks import Changes, Due, Missed, Noted, TickNotes, due_between

log = structlog.get_logger()

GATHER_SECONDS = 0.05
"""Events that are accepted at about the same time are recorded together."""
LONGEST_REST_SECONDS = 10.0
"""A changed clock is noticed after this long."""
RETRY_SECONDS = 1.0
DRAIN_SECONDS = 3.0
MOST_WAITING = 10_000

_IDS = uuid.UUID("6f0b9a52-5f8e-4b0c-9a1d-0e6f3c1d7a44")


@dataclass(frozen=True)
class Ping:
    """A PingSource with its parsed schedule and its resolved sink."""

    source: PingSource
    schedule: CronSchedule
    sink: ResolvedAddress

    @property
    def uid(self) -> str:
        """The uid of the PingSource."""
        return self.source.identity.uid


def event_at(ping: Ping, tick: int) -> CloudEvent:
    """The event of a tick. Its id follows from the tick, so that duplicates can be recognised."""
    source = ping.source
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid5(_IDS, f"{ping.uid}/{tick}")),
        "source": source.event_source,
        "type": EVENT_TYPE,
        "time": rfc3339_of(tick),
    }
    if source.data is not None and source.content_type:
        attributes["datacontenttype"] = source.content_type
    attributes |= {name.lower(): value for name, value in source.extensions.items()}
    return CloudEvent(attributes, source.data)


class Agenda:
    """The next tick of each source, in one heap, so that waiting is cheap however many sources there are."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._next: dict[str, int] = {}

    def put(self, uid: str, moment: int | None) -> None:
        """Sets the next tick of the source; None: it has none."""
        if moment is None:
            self._next.pop(uid, None)
        elif self._next.get(uid) != moment:
            self._next[uid] = moment
            heapq.heappush(self._heap, (moment, uid))

    def first(self) -> int | None:
        """The earliest tick."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> list[str]:
        """Removes and returns the sources that are due."""
        taken = []
        while (moment := self.first()) is not None and moment <= now:
            uid = heapq.heappop(self._heap)[1]
            del self._next[uid]
            taken.append(uid)
        return taken

    def _drop_stale(self) -> None:
        """Entries that a later `put` has replaced stay in the heap until they are first."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)


class PingListener(Protocol):
    """Observers of a source's state."""

    def trouble_changed(self, uid: str) -> None:
        """The source begins or stops waiting for its sink; see `PingRunner.trouble`."""

    def ticks_missed(self, uid: str, missed: Missed) -> None:
        """Ticks of the source were missed."""


@dataclass
class _Source:
    """A source; it is active while it has a ping."""

    uid: str
    deliveries: SourceDeliveries
    waiting: deque[int]
    last: int
    schedule: str
    """The schedule of `last`; when it changes, ticks count from that time on."""
    ping: Ping | None = None
    sending: bool = False


class PingRunner:
    """All PingSources of a process."""

    def __init__(
        self,
        open_notes: Callable[[], TickNotes],
        send: Send,
        listener: PingListener,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_notes, self._send, self._listener, self._clock = open_notes, send, listener, clock
        self._notes: TickNotes | None = None
        self._noted: dict[str, Noted] = {}
        self._sources: dict[str, _Source] = {}
        self._agenda = Agenda()
        self._unwritten = Changes()
        self._writing: asyncio.Task[None] | None = None
        self._ending = False
        self._wake = asyncio.Event()
        self._tasks = TaskScope()

    def put(self, ping: Ping) -> None:
        """Adds or changes a source."""
        source = self._source(ping.uid)
        if source.ping == ping:
            return
        schedule = f"{ping.schedule.line} {ping.schedule.zone}"
        if source.schedule != schedule:
            source.schedule, source.last = schedule, int(self._clock())
        source.ping = ping
        self._agenda.put(ping.uid, ping.schedule.next_after(source.last))
        self._unwritten.settled[ping.uid] = Noted(schedule, source.last)
        source.deliveries.hurry()
        self._send_what_waits(source)
        self._wake.set()

    def pause(self, uid: str) -> None:
        """Deactivates a source without a sink; events that wait keep waiting."""
        source = self._source(uid)
        if source.ping is not None:
            source.ping, source.schedule = None, ""
            self._agenda.put(uid, None)
            source.deliveries.hurry()

    def remove(self, uid: str) -> None:
        """The source was deleted."""
        source = self._sources.pop(uid, None)
        if source is not None:
            source.ping = None
            source.deliveries.hurry()
            self._agenda.put(uid, None)
            self._unwritten.settled.pop(uid, None)
            self._unwritten.forgotten.append(uid)
            self._wake.set()

    def trouble(self, uid: str) -> str | None:
        """Why the source waits for its sink; None where it does not."""
        source = self._sources.get(uid)
        return None if source is None else source.deliveries.trouble

    async def run(self) -> None:
        """Sends until cancelled. Start it after the first pass of the reconcilers: stored ticks of unknown sources are
        deleted."""
        try:
            await first(self._loop(), self._tasks.failed())
        finally:
            await self._end()

    async def _loop(self) -> None:
        self._unwritten.forgotten.extend(self._noted)
        self._noted.clear()
        while True:
            self._wake.clear()
            fired = self._take_due(int(self._clock()))
            await self._store()
            for source, ticks in fired:
                source.waiting.extend(ticks)
                self._send_what_waits(source)
            await self._rest()

    def _take_due(self, now: int) -> list[tuple[_Source, tuple[int, ...]]]:
        fired = []
        for uid in self._agenda.take(now):
            source = self._sources[uid]
            if source.ping is None:
                continue
            due = _within_bounds(due_between(source.ping.schedule, source.last, now), len(source.waiting))
            source.last = max(source.last, now)
            self._unwritten.settled[uid] = Noted(source.schedule, source.last, due.fire)
            self._agenda.put(uid, source.ping.schedule.next_after(source.last))
            if due.missed is not None:
                log.warning("ticks were missed", source=source.ping.source.event_source, missed=str(due.missed))
                self._listener.ticks_missed(uid, due.missed)
            fired.append((source, due.fire))
        return fired

    async def _store(self) -> None:
        changes, self._unwritten = self._unwritten, Changes()
        if changes and self._notes is not None:
            # Shielded: cancelling this must neither interrupt a write nor close the file under it.
            self._writing = asyncio.create_task(self._write(self._notes, changes), name="store ticks")
            await asyncio.shield(self._writing)

    async def _write(self, notes: TickNotes, changes: Changes) -> None:
        while True:
            try:
                return await asyncio.to_thread(notes.write, changes)
            except sqlite3.Error as error:
                log.error("ticks cannot be stored; retrying", error=describe(error))
                if self._ending:
                    return
                await asyncio.sleep(RETRY_SECONDS)

    async def _rest(self) -> None:
        """Sleeps until the next tick, or until there is something to store."""
        moment = self._agenda.first()
        seconds = LONGEST_REST_SECONDS if moment is None else min(moment - self._clock(), LONGEST_REST_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):
                await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)

    def _send_what_waits(self, source: _Source) -> None:
        if source.waiting and source.ping is not None and not source.sending:
            source.sending = True
            self._tasks.start(self._send_all(source), f"ticks of {source.uid}")

    async def _send_all(self, source: _Source) -> None:
        try:
            while await source.deliveries.deliver(partial(_letter, source)):
                self._unwritten.accepted.append((source.uid, source.waiting.popleft()))
                self._wake.set()
        finally:
            source.sending = False

    def _source(self, uid: str) -> _Source:
        if uid not in self._sources:
            if self._notes is None:
                self._notes = self._open_notes()
                self._noted = self._notes.load()
            noted = self._noted.pop(uid, Noted("", 0))
            deliveries = SourceDeliveries(self._send, partial(self._listener.trouble_changed, uid))
            self._sources[uid] = _Source(uid, deliveries, deque(noted.waiting), noted.last, noted.schedule)
        return self._sources[uid]

    async def _end(self) -> None:
        """Waits for requests in flight, so that their outcome is known at the next start."""
        self._ending = True
        for source in self._sources.values():
            source.ping = None
            source.deliveries.hurry()
        await self._tasks.ended(DRAIN_SECONDS)
        await self._tasks.close()
        if self._writing is not None:
            await self._writing
        if self._notes is not None:
            await self._write(self._notes, self._unwritten)
            self._notes.close()


def _letter(source: _Source) -> Letter | None:
    if source.ping is None or not source.waiting:
        return None
    return source.ping.sink, event_at(source.ping, source.waiting[0]), source.ping.source.identity.namespace


def _within_bounds(due: Due, waiting: int) -> Due:
    """Limits the events that wait: a sink that fails for days must not fill the memory."""
    if waiting + len(due.fire) <= MOST_WAITING:
        return due
    return Due((), Missed(len(due.fire), due.fire[0], due.fire[-1], f"{waiting} wait for the sink already"))
