"""Random access to a topic: chunks for routes that catch up, single records for deliveries that waited.

One consumer in one thread serves all requests in order. A partition that does not respond, such as one without a
leader, gets a consumer and a thread of its own until it does, so that the others do not wait for it. Requests for
single records that are made together are read together if they are close to each other. The caller gives the function
that decodes a record.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.kafka import clients
from penstock.kafka.tail import READING, Decoder, decode, fetch_metadata
from penstock.kafka.watchdog import LOOK_SECONDS, ending_process
from penstock.observability.logs import describe
from penstock.runtime.tasks import OwnedThread, TaskScope
from penstock.settings import Settings

log = structlog.get_logger()

NEAR = 64
"""Records between two wanted ones up to which they are read in one go, without a seek."""
PREFETCH_KIB = 2048
IDLE_SECONDS = 0.2
"""Time without a request after which nothing is prefetched any more."""
UNUSED_SECONDS = 60.0
"""Time without a request after which the client is closed, until the next request."""
UNRESPONSIVE_SECONDS = 5.0
"""Time without data of a partition after which the others do not wait for it any more."""

READING_AT_RANDOM = {
    **READING,
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": PREFETCH_KIB,
    # A fetch that waits at the end of one partition would hold up the next request for another.
    "fetch.wait.max.ms": 5,
}


class NotReadNow(RuntimeError):
    """A partition does not respond; others may."""


class HasOffset(Protocol):
    """A record with its offset."""

    offset: int


T = TypeVar("T", bound=HasOffset)


@dataclass(frozen=True)
class Chunk(Generic[T]):
    """Records from `begin` to `end`, exclusive. `begin` is later than requested, perhaps beyond `end`, if retention has
    removed the rest."""

    begin: int
    end: int
    records: list[T]
    log_end: int | None = None
    """Where the log ended when this was read, if it ended before `end`."""


@dataclass(frozen=True)
class _Request(Generic[T]):
    partition: int
    begin: int
    end: int
    result: asyncio.Future[Chunk[T]]


class RandomReader(Generic[T]):
    """Random access to the topic."""

    def __init__(self, settings: Settings, topic: str, decoder: Decoder[T], scope: TaskScope) -> None:
        self._settings, self._topic, self._decoder, self._scope = settings, topic, decoder, scope
        self._loop = asyncio.get_running_loop()
        self._common = self._reading()
        self._apart: dict[int, _Reading[T]] = {}
        """Readings of single partitions that did not respond, until they have no more requests."""
        self._unresponsive: set[int] = set()
        """Partitions that do not respond now."""
        self._wanted: dict[int, dict[int, asyncio.Future[T | None]]] = {}
        """Requested single records, by partition and offset."""
        self._gathering: dict[int, asyncio.Task[None]] = {}

    def stop(self) -> None:
        """Stops reading; pending requests never complete."""
        readings = [self._common, *self._apart.values()]
        for reading in readings:
            reading.end()
        for reading in readings:
            reading.join()

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[T]:
        """The records from `begin` to `end`, exclusive, as far as the log has them. Waits while Kafka is
        unreachable."""
        result: asyncio.Future[Chunk[T]] = self._loop.create_future()
        self._apart.get(partition, self._common).ask(_Request(partition, begin, end, result))
        return await result

    async def record(self, partition: int, offset: int) -> T | None:
        """One record; None if it is no longer retained, or the log ends before it. Raises NotReadNow."""
        if partition in self._unresponsive:
            raise self._not_responding(partition)
        wanted = self._wanted.setdefault(partition, {})
        if offset not in wanted:
            wanted[offset] = self._loop.create_future()
            if partition not in self._gathering:
                self._gathering[partition] = self._loop.create_task(self._scope.watch(self._gather(partition, wanted)))
        return await asyncio.shield(wanted[offset])

    async def _gather(self, partition: int, wanted: dict[int, asyncio.Future[T | None]]) -> None:
        await asyncio.sleep(0)  # lets all requests of this turn of the loop gather
        try:
            while wanted:
                for _, begin, end in runs([(partition, offset) for offset in wanted]):
                    chunk = await self.chunk(partition, begin, end)
                    found = {record.offset: record for record in chunk.records}
                    for offset in range(begin, end):
                        waiting = wanted.pop(offset, None)
                        if waiting is not None and not waiting.done():
                            waiting.set_result(found.get(offset))
        finally:
            del self._gathering[partition]

    def _reading(self, partition: int | None = None) -> _Reading[T]:
        return _Reading(
            self._settings,
            self._topic,
            self._decoder,
            self._scope,
            partition,
            answered=self._answered,
            unresponsive=self._is_unresponsive,
            unused=self._is_unused,
        )

    def _is_unused(self, reading: _Reading[T]) -> None:
        """On the loop: the common reading had no request for long."""
        if reading is self._common and not reading.asked:
            self._common = self._reading()
            reading.end()

    def _answered(self, reading: _Reading[T], request: _Request[T], chunk: Chunk[T]) -> None:
        """On the loop: a reading has completed a request."""
        reading.asked -= 1
        if not request.result.done():
            request.result.set_result(chunk)
        self._unresponsive.discard(request.partition)
        if reading is not self._common and not reading.asked:
            del self._apart[request.partition]
            reading.end()

    def _is_unresponsive(self, reading: _Reading[T], request: _Request[T]) -> None:
        """On the loop: a partition does not respond. A reading of its own continues with the request; the common one
        does not."""
        partition = request.partition
        if reading is self._common:
            reading.asked -= 1
            if partition not in self._apart:
                self._apart[partition] = self._reading(partition)
            self._apart[partition].ask(request)
        if partition not in self._unresponsive:
            log.warning(
                "a partition does not respond; others are read meanwhile", topic=self._topic, partition=partition
            )
        self._unresponsive.add(partition)
        wanted = self._wanted.get(partition, {})
        for waiting in wanted.values():
            if not waiting.done():
                waiting.set_exception(self._not_responding(partition))
                waiting.exception()  # retrieved here, because all waiters may be gone
        wanted.clear()

    def _not_responding(self, partition: int) -> NotReadNow:
        return NotReadNow(f"partition {partition} of {self._topic} does not respond")


class _Reading(Generic[T]):
    """A consumer and its thread, for all partitions or for one."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        decoder: Decoder[T],
        scope: TaskScope,
        partition: int | None,
        *,
        answered: Callable[[_Reading[T], _Request[T], Chunk[T]], None],
        unresponsive: Callable[[_Reading[T], _Request[T]], None],
        unused: Callable[[_Reading[T]], None],
    ) -> None:
        self._settings, self._decoder, self._scope = settings, decoder, scope
        self._topic, self._patient = clients.topic_name(settings, topic), partition is not None
        self._answered, self._unresponsive, self._unused = answered, unresponsive, unused
        self._requests: queue.SimpleQueue[_Request[T] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        of = topic if partition is None else f"partition {partition} of {topic}"
        self._thread = OwnedThread(f"random reader of {of}", self._run, scope.fail)
        self._started = False
        """It starts with the first request: some never get one."""
        self.asked = 0
        """Requests that are not completed yet."""

    def ask(self, request: _Request[T]) -> None:
        """Takes a request. On the loop."""
        self.asked += 1
        self._requests.put(request)
        if not self._started:
            self._started = True
            self._thread.start()

    def end(self) -> None:
        """Ends soon."""
        self._stop.set()
        self._requests.put(None)

    def join(self) -> None:
        """Waits for its end."""
        if self._started:
            self._thread.join(5)

    def _run(self) -> None:
        consumer = clients.consumer(self._settings, "random-reader", READING_AT_RANDOM, ending_process())
        at: tuple[int, int] | None = None
        used = time.monotonic()
        try:
            fetch_metadata(consumer, self._topic)
            while not self._stop.is_set():
                try:
                    request = self._requests.get(timeout=LOOK_SECONDS if at is None else IDLE_SECONDS)
                except queue.Empty:
                    if at is None:
                        consumer.poll(0)
                    else:
                        consumer.unassign()
                    at = None
                    if time.monotonic() - used > UNUSED_SECONDS:
                        self._scope.hand_over(self._unused, self)
                    continue
                if request is None:
                    break
                used = time.monotonic()
                if at != (request.partition, request.begin):
                    consumer.assign([TopicPartition(self._topic, request.partition, request.begin)])
                try:
                    chunk, position = self._read(consumer, request)
                except NotReadNow:
                    consumer.unassign()
                    at = None
                    continue
                if chunk is None:
                    break
                at = None if position is None else (request.partition, position)
                self._scope.hand_over(self._answered, self, request, chunk)
        finally:
            consumer.close()

    def _read(  # noqa: PLR0912  # each outcome of a poll is a branch
        self, consumer: Consumer, request: _Request[T]
    ) -> tuple[Chunk[T] | None, int | None]:
        """The chunk (None: stopped), and where the consumer stands after it (None: unknown). Raises NotReadNow."""
        position: int = request.begin
        records: list[T] = []
        begin = request.begin
        received_at: float | None = time.monotonic()
        while position < request.end:
            if self._stop.is_set():
                return None, None
            first = consumer.poll(0.2)
            if first is None:
                if received_at is not None and time.monotonic() - received_at > UNRESPONSIVE_SECONDS:
                    received_at = None
                    self._scope.hand_over(self._unresponsive, self, request)
                    if not self._patient:
                        raise NotReadNow
                continue
            more = request.end - position - 1
            for message in [first, *consumer.consume(more, 0)] if more > 0 else [first]:
                problem = message.error()
                if problem is not None:
                    if problem.code() != KafkaError._PARTITION_EOF:
                        log.warning("a topic cannot be read", topic=self._topic, error=describe(problem))
                        continue
                    low, high = self._bounds(consumer, request.partition)
                    if high <= position:
                        return Chunk(begin, request.end, records, high), position if high == position else None
                    if low >= request.end:
                        return Chunk(max(begin, low), request.end, records), None
                    if low >= high:  # retention has removed everything
                        return Chunk(max(begin, low), request.end, records, high), None
                    # An end that was reached while prefetching, before the requested records were written: the log is
                    # longer now.
                    continue
                offset, received_at = int(message.offset() or 0), time.monotonic()
                if offset < begin:
                    # The log ends before the requested offset, so the consumer was reset to its beginning.
                    return Chunk(begin, request.end, []), None
                if offset > position and not records:
                    begin = max(begin, self._bounds(consumer, request.partition)[0])
                position = offset + 1
                if offset < request.end:
                    records.append(decode(message, self._decoder))
        return Chunk(begin, request.end, records), position

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        """The first offset and the end of the partition; if unknown, an offset before and one after all others."""
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=5)
        except KafkaException:
            return 0, 1 << 62
        return int(low), int(high)


def runs(wanted: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Partition, begin and end (exclusive) of stretches that cover the wanted offsets without long gaps."""
    stretches: list[tuple[int, int, int]] = []
    for partition, offset in sorted(wanted):
        if stretches and stretches[-1][0] == partition and offset - stretches[-1][2] <= NEAR:
            stretches[-1] = (partition, stretches[-1][1], offset + 1)
        else:
            stretches.append((partition, offset, offset + 1))
    return stretches
