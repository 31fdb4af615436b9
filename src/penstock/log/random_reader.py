"""Reading a topic at any place: chunks for those who catch up, single records for those who waited.

One consumer in one thread serves all requests in order. Requests for single records that come together are read
together where they lie close to each other. What a record means is for the room that reads it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.log import clients
from penstock.log.tail import READING, Decoder, decode, get_to_know
from penstock.log.threads import OwnedThread, Owner
from penstock.log.watchdog import LOOK_SECONDS, ending_process
from penstock.observability.logs import describe
from penstock.settings import Settings

log = structlog.get_logger()

NEAR = 64
"""Records that lie between two wanted ones and are read along rather than sought past."""
PREFETCH_KIB = 2048
IDLE_SECONDS = 0.2
"""After this long without a request nothing is read ahead any more."""

READING_AT_RANDOM = {
    **READING,
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": PREFETCH_KIB,
    # A fetch that waits at the end of one partition would hold up the next request for another.
    "fetch.wait.max.ms": 5,
}


class Placed(Protocol):
    """A record that knows its offset."""

    offset: int


T = TypeVar("T", bound=Placed)


@dataclass(frozen=True)
class Chunk(Generic[T]):
    """Records from `begin` (which is later than asked for where retention has removed the rest) to `end`, exclusive."""

    begin: int
    end: int
    records: list[T]


@dataclass(frozen=True)
class _Request(Generic[T]):
    partition: int
    begin: int
    end: int
    answer: asyncio.Future[Chunk[T]]


class RandomReader(Generic[T]):
    """Random access to the topic."""

    def __init__(self, settings: Settings, topic: str, decoder: Decoder[T], owner: Owner) -> None:
        self._settings, self._decoder, self._owner = settings, decoder, owner
        self._topic = clients.topic_name(settings, topic)
        self._loop = asyncio.get_running_loop()
        self._requests: queue.SimpleQueue[_Request[T] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._wanted: dict[tuple[int, int], asyncio.Future[T | None]] = {}
        self._gathering: asyncio.Task[None] | None = None
        self._thread = OwnedThread(f"random reader of {topic}", self._run, owner.fail)
        self._started = False
        """With the first request: some are never asked."""

    def stop(self) -> None:
        """Ends reading; what was asked for is never answered."""
        self._stop.set()
        self._requests.put(None)
        if self._started:
            self._thread.join(5)

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[T]:
        """The records from `begin` to `end`, exclusive, as far as the log has them. Waits for a Kafka that is away."""
        answer: asyncio.Future[Chunk[T]] = self._loop.create_future()
        self._requests.put(_Request(partition, begin, end, answer))
        if not self._started:
            self._started = True
            self._thread.start()
        return await answer

    async def record(self, partition: int, offset: int) -> T | None:
        """One record; None if it is no longer retained, or the log ends before it."""
        wanted = self._wanted.get((partition, offset))
        if wanted is None:
            wanted = self._wanted[(partition, offset)] = self._loop.create_future()
            if self._gathering is None:
                self._gathering = self._loop.create_task(self._owner.watch(self._gather()))
        return await asyncio.shield(wanted)

    async def _gather(self) -> None:
        await asyncio.sleep(0)  # lets everybody who is due now say what they want
        try:
            while self._wanted:
                for partition, begin, end in runs(list(self._wanted)):
                    chunk = await self.chunk(partition, begin, end)
                    found = {record.offset: record for record in chunk.records}
                    for offset in range(begin, end):
                        wanted = self._wanted.pop((partition, offset), None)
                        if wanted is not None and not wanted.done():
                            wanted.set_result(found.get(offset))
        finally:
            self._gathering = None

    def _run(self) -> None:
        consumer = clients.consumer(self._settings, "random-reader", READING_AT_RANDOM, ending_process())
        at: tuple[int, int] | None = None
        try:
            get_to_know(consumer, self._topic)
            while not self._stop.is_set():
                try:
                    request = self._requests.get(timeout=LOOK_SECONDS if at is None else IDLE_SECONDS)
                except queue.Empty:
                    if at is None:
                        consumer.poll(0)
                    else:
                        consumer.unassign()
                    at = None
                    continue
                if request is None:
                    break
                if at != (request.partition, request.begin):
                    consumer.assign([TopicPartition(self._topic, request.partition, request.begin)])
                chunk, position = self._read(consumer, request)
                if chunk is None:
                    break
                at = None if position is None else (request.partition, position)
                self._owner.hand_over(_answer, request.answer, chunk)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, request: _Request[T]) -> tuple[Chunk[T] | None, int | None]:
        """The chunk (None: stopped), and where the consumer stands after it (None: unknown)."""
        position: int = request.begin
        records: list[T] = []
        begin = request.begin
        while position < request.end:
            if self._stop.is_set():
                return None, None
            first = consumer.poll(0.2)
            if first is None:
                continue
            more = request.end - position - 1
            for message in [first, *consumer.consume(more, 0)] if more > 0 else [first]:
                problem = message.error()
                if problem is not None:
                    if problem.code() != KafkaError._PARTITION_EOF:
                        log.warning("a topic cannot be read for now", topic=self._topic, error=describe(problem))
                        continue
                    low, high = self._bounds(consumer, request.partition)
                    if high <= position or low >= request.end:
                        at = position if high == position else None
                        return Chunk(max(begin, min(low, request.end)), request.end, records), at
                    # An end that was met while reading ahead, before what is asked for was written: it lies further on.
                    continue
                offset = int(message.offset() or 0)
                if offset < begin:
                    # The log ends before what is asked for, so that the consumer went back to its beginning.
                    return Chunk(begin, request.end, []), None
                if offset > position and not records:
                    begin = max(begin, self._bounds(consumer, request.partition)[0])
                position = offset + 1
                if offset < request.end:
                    records.append(decode(message, self._decoder))
        return Chunk(begin, request.end, records), position

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        """The first offset and the end of the partition; not known means earlier and further on than anybody asks."""
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


def _answer(future: asyncio.Future[Chunk[T]], chunk: Chunk[T]) -> None:
    if not future.done():
        future.set_result(chunk)
