"""Fires the PingSources: one loop over one agenda, a note before each event, and a sender only while something waits.

Every tick goes through the same steps: it is due, it is written down, it is sent until the sink accepts it, it is
struck out. What a stop or a crash interrupts is taken up at the next start.
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

# A PingSource that can fire: where its events go, and what they are.

_IDS = uuid.UUID("6f0b9a52-5f8e-4b0c-9a1d-0e6f3c1d7a44")


@dataclass(frozen=True)
class Ping:
    """A PingSource with its schedule read and its sink found."""

    source: PingSource
    schedule: CronSchedule
    sink: ResolvedAddress

    @property
    def uid(self) -> str:
        """The uid of the PingSource."""
        return self.source.identity.uid


def event_at(ping: Ping, tick: int) -> CloudEvent:
    """The event of a tick. The same tick always has the same id, so that one sent twice can be recognised."""
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


# When which source is next: one heap for all, so that a thousand sources that wait cost what one does.


class Agenda:
    """The next moment of each source."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._next: dict[str, int] = {}

    def put(self, uid: str, moment: int | None) -> None:
        """The source is next at that moment; None: never."""
        if moment is None:
            self._next.pop(uid, None)
        elif self._next.get(uid) != moment:
            self._next[uid] = moment
            heapq.heappush(self._heap, (moment, uid))

    def first(self) -> int | None:
        """The moment of whichever source is next."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take(self, now: int) -> list[str]:
        """The sources whose moment has come. Each waits for its next `put`."""
        taken = []
        while (moment := self.first()) is not None and moment <= now:
            uid = heapq.heappop(self._heap)[1]
            del self._next[uid]
            taken.append(uid)
        return taken

    def _drop_stale(self) -> None:
        """Entries that a later `put` has replaced stay in the heap until they come up."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)


log = structlog.get_logger()

GATHER_SECONDS = 0.05
"""What is accepted at about the same time is written down together."""
LONGEST_REST_SECONDS = 10.0
"""A clock that was set is noticed after this long."""
RETRY_SECONDS = 1.0
DRAIN_SECONDS = 3.0
MOST_WAITING = 10_000


class PingListener(Protocol):
    """Observers of a source's state."""

    def trouble_changed(self, uid: str) -> None:
        """The source waits for its sink, or waits no more; see `PingRunner.trouble`."""

    def ticks_missed(self, uid: str, missed: Missed) -> None:
        """Ticks of the source were not fired."""


@dataclass
class _Source:
    """A source that is known, and fires as long as it has a ping."""

    uid: str
    deliveries: SourceDeliveries
    waiting: deque[int]
    last: int
    schedule: str
    """What `last` belongs to; where the schedule is another, ticks count from then on."""
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
        """Has the source fire, as it now is."""
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
        """The source has nowhere to send to: it does not fire, and what waits goes on waiting."""
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
        """Fires until cancelled. To be started when every source has been looked at once: others are gone."""
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
            await self._write_down()
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

    async def _write_down(self) -> None:
        changes, self._unwritten = self._unwritten, Changes()
        if changes and self._notes is not None:
            # A stop must not cut a write off, nor close the file under it.
            self._writing = asyncio.create_task(self._write(self._notes, changes), name="ticks are noted")
            await asyncio.shield(self._writing)

    async def _write(self, notes: TickNotes, changes: Changes) -> None:
        while True:
            try:
                return await asyncio.to_thread(notes.write, changes)
            except sqlite3.Error as error:
                log.error("ticks cannot be noted and wait until they can", error=describe(error))
                if self._ending:
                    return
                await asyncio.sleep(RETRY_SECONDS)

    async def _rest(self) -> None:
        """Until the next moment, or until there is something to write down."""
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
        """Requests under way are waited for, so that what they achieve is known at the next start."""
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
    """A sink that takes nothing for days must not fill the memory."""
    if waiting + len(due.fire) <= MOST_WAITING:
        return due
    return Due((), Missed(len(due.fire), due.fire[0], due.fire[-1], f"{waiting} wait for the sink already"))
