"""Live events and deliveries for any number of viewers: one reader for all of them, and none without viewers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from penstock.console.events.archive import low_priority_thread
from penstock.contract import records as headers
from penstock.contract import topics
from penstock.filters.predicate import Everything
from penstock.kafka.live import LiveSelection, SampleLimit
from penstock.kafka.ranges import LogRecord
from penstock.kafka.topic_ends import KafkaAway
from penstock.runtime.errors import UserError

POLL_SECONDS = 0.25

BEAT_SECONDS = 10.0
"""A heartbeat is sent at least so often, so that a broken connection is noticed."""

PER_SECOND = 20
"""Lines that are shown each second."""

MOST_WAITING = 200
"""Messages kept for a viewer who does not read them."""

MOST_VIEWERS = 50


@dataclass(frozen=True)
class ShownRecord:
    """A record that is shown."""

    record: LogRecord


@dataclass(frozen=True)
class Sampled:
    """How many records of the last second were shown."""

    shown: int
    of: int


@dataclass(frozen=True)
class Unreachable:
    """Kafka is unreachable, for this reason."""

    reason: str


@dataclass(frozen=True)
class Nothing:
    """Nothing has come."""


class LiveRecords(Protocol):
    """What is needed of Kafka."""

    def poll(self, seconds: float) -> list[tuple[str, LogRecord]]:
        """What has come. Raises KafkaAway."""

    def leave_out(self, seconds: float) -> Mapping[str, int]:
        """Pauses reading for so long; returns how many records of each topic it skipped. Raises KafkaAway."""


class Viewer:
    """An open live page."""

    def __init__(
        self, selection: LiveSelection, is_attempts: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.topic = topics.ATTEMPTS if is_attempts else topics.EVENTS
        self.waiting: asyncio.Queue[Message] = asyncio.Queue(MOST_WAITING)
        self._selection, self._is_attempts = selection, is_attempts
        self._wants_all = isinstance(selection.predicate, Everything) and selection.uid is None
        self._found: list[Message] = []
        self._sample = SampleLimit(lambda shown, of: self._found.append(Sampled(shown, of)), PER_SECOND, clock)

    def look_at(self, records: Iterable[LogRecord]) -> list[Message]:
        """What is to be shown of these. What is beyond the sample is not even read, where everything is wanted."""
        self._found = []
        for record in records:
            if self._wants(record) and self._sample.admits():
                self._found.append(ShownRecord(record))
        self._sample.turn()
        return self._found

    def _wants(self, record: LogRecord) -> bool:
        if self._wants_all:
            return self._is_attempts or not is_marker(record)
        return (self._selection.attempt if self._is_attempts else self._selection.event)(record) is not None

    @property
    def has_enough(self) -> bool:
        """Whether the limit of this second is reached, so that no more records would be shown."""
        return self._wants_all and self._sample.is_full

    def leave_out(self, count: int) -> list[Message]:
        """How many records were skipped."""
        self._found = []
        self._sample.leave_out(count)
        self._sample.turn()
        return self._found

    def put(self, messages: Iterable[Message]) -> None:
        """Keeps messages until they are taken. Who does not take them gets the first."""
        with contextlib.suppress(asyncio.QueueFull):
            for message in messages:
                self.waiting.put_nowait(message)


class Tails:
    """Everybody who looks, and the reader for them all. Used from one event loop."""

    def __init__(self, follow: Follow, stopping: asyncio.Event) -> None:
        self._follow, self._stopping = follow, stopping
        self._viewers: set[Viewer] = set()
        self._reading: asyncio.Task[None] | None = None
        self._thread = low_priority_thread("tails")

    async def watch(self, selection: LiveSelection, is_attempts: bool) -> AsyncGenerator[Message]:
        """Live records, until the console stops or the caller ends the iteration. Raises the error of the reader."""
        viewer = Viewer(selection, is_attempts)
        self._viewers.add(viewer)
        try:
            while not self._stopping.is_set():
                yield await self._next(viewer)
        finally:
            self._viewers.discard(viewer)

    def check_limit(self) -> None:
        """Raises UserError where as many look as may."""
        if len(self._viewers) >= MOST_VIEWERS:
            raise UserError(f"{MOST_VIEWERS} live pages are already open.", "Close some of them.")

    async def close(self) -> None:
        """Ends the reader."""
        self._viewers.clear()
        if self._reading is not None:
            await asyncio.wait({self._reading})
        self._thread.shutdown(wait=False)

    async def _next(self, viewer: Viewer) -> Message:
        """The next message; after a while without any, that nothing has come."""
        reading, taken = self._reader(), asyncio.ensure_future(viewer.waiting.get())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({taken, reading, stopping}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if taken.done():
                return taken.result()
            if reading.done():
                reading.result()
            return Nothing()
        finally:
            taken.cancel()
            stopping.cancel()

    def _reader(self) -> asyncio.Task[None]:
        """The task that reads; its failure is shown to all viewers, and the next viewer starts another."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="live records")
        return self._reading

    async def _read(self) -> None:
        """Runs until the last viewer has left."""
        while (wanted := self._topics()) and not self._stopping.is_set():
            try:
                await self._read_topics(wanted)
            except KafkaAway as error:
                for viewer in self._viewers:
                    viewer.put([Unreachable(str(error))])
                await asyncio.sleep(POLL_SECONDS * 8)

    async def _read_topics(self, wanted: tuple[str, ...]) -> None:
        """As long as these are the topics that are looked at: who comes for another gets a reader that has it too."""
        loop = asyncio.get_running_loop()
        opened = self._follow(*wanted)
        reader = await loop.run_in_executor(self._thread, opened.__enter__)
        try:
            while self._topics() == wanted and not self._stopping.is_set():
                viewers = list(self._viewers)
                found = await loop.run_in_executor(self._thread, step, reader, viewers)
                for viewer, messages in found:
                    viewer.put(messages)
        finally:
            await loop.run_in_executor(self._thread, opened.__exit__, None, None, None)

    def _topics(self) -> tuple[str, ...]:
        return tuple(sorted({viewer.topic for viewer in self._viewers}))


def step(reader: LiveRecords, viewers: list[Viewer]) -> list[tuple[Viewer, list[Message]]]:
    """Reads what has come, on the reader's thread. Where no viewer would be shown more within this second, nothing is
    fetched: that would take time from deliveries, and Kafka's as well."""
    if viewers and all(viewer.has_enough for viewer in viewers):
        left_out = reader.leave_out(1 - time.monotonic() % 1)
        return [(viewer, viewer.leave_out(left_out.get(viewer.topic, 0))) for viewer in viewers]
    by_topic: dict[str, list[LogRecord]] = {}
    for topic, record in reader.poll(POLL_SECONDS):
        by_topic.setdefault(topic, []).append(record)
    return [(viewer, viewer.look_at(by_topic.get(viewer.topic, ()))) for viewer in viewers]


def is_marker(record: LogRecord) -> bool:
    """Whether it is one of the router's markers and not an event."""
    return any(name == headers.MARKER for name, _ in record.headers)


Message = ShownRecord | Sampled | Unreachable | Nothing

Follow = Callable[..., AbstractContextManager[LiveRecords]]
"""Opens a reader of some topics. Raises KafkaAway."""
