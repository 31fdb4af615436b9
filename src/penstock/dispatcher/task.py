"""One dispatcher task: owns partitions, from taking them over to handing them back. Needs Kafka, not Spark.

Start: take the partitions over (fences a predecessor), read the snapshot, then the cursors, and go on from there.
Stop: read nothing more, let requests end within the drain time, write the cursors a last time.
Failure: whatever part it is that ends by an exception, the task ends with it and writes nothing more: what was not
handled is still before the cursors, and is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import structlog

from penstock.contract import topics
from penstock.contract.routes import Replay
from penstock.contract.seen_types import SeenTypes
from penstock.contract.snapshot import Snapshot
from penstock.destinations import Destinations
from penstock.dispatcher.cursors.cursor_store import CursorStore, GivenUp
from penstock.dispatcher.delivery.attempt import AttemptSender
from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.matched.record import DECODER, EVENT_DECODER, Matched
from penstock.dispatcher.replay.given_up import attempts_given_up, origins_given_up
from penstock.dispatcher.replay.reach import FurtherBack
from penstock.dispatcher.replay.replays import Replays
from penstock.dispatcher.secrets.kept import KeptSecrets
from penstock.dispatcher.secrets.requests import SecretRequests
from penstock.events.event import CloudEvent
from penstock.history.reader.kept import KeptEvents
from penstock.lifecycle import first
from penstock.log.admin import NotDone, TopicAdmin
from penstock.log.random_reader import RandomReader
from penstock.log.reports import Reporter
from penstock.log.table import SnapshotFollower
from penstock.log.tail import TailReader
from penstock.log.threads import Owner
from penstock.log.topic_ends import KafkaAway
from penstock.observability import trace
from penstock.observability.logs import describe
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens, TokenRequests

log = structlog.get_logger()

PARENT_CHECK_SECONDS = 1.0
SPARK_DAEMON = "pyspark.daemon"
"""What Spark runs to have workers forked from it, unless it is told to start each by itself."""
EACH_SECONDS = 1.0
MEASURE_SECONDS = 2.0
LAST_FLUSH_SECONDS = 1.0
AGAIN_SECONDS = 2.0

T = TypeVar("T")


async def run_task(
    settings: Settings, partitions: list[int], stop: asyncio.Event, instance: str = "dispatcher-0"
) -> None:
    """Delivers what is matched in `partitions` until `stop` is set. Raises Fenced when another task took over."""
    parent = os.getppid()
    task = _Task(settings, partitions, instance)
    try:
        await first(task.serve(stop), _outlive(parent))
    finally:
        await task.close()


async def _outlive(parent: int) -> None:
    """Raises when the process that started this one is gone: nobody would ever stop the task."""
    while os.getppid() == parent and daemon_lives():  # noqa: ASYNC110  # nothing tells of it, one has to look
        await asyncio.sleep(PARENT_CHECK_SECONDS)
    raise ParentGone("the process that started this task is gone")


def daemon_lives() -> bool:
    """Whether Spark's daemon is there, where this process is a worker of one. A daemon that is killed while its workers
    still start is no longer their parent when they ask who that is, but it leads their process group."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is None or main.name != SPARK_DAEMON:
        return True
    try:
        os.kill(os.getpgrp(), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class _Task:
    def __init__(self, settings: Settings, partitions: list[int], instance: str) -> None:
        self._settings, self._partitions = settings, partitions
        self._loop = asyncio.get_running_loop()
        self._owner = Owner()
        failed = self._owner.fail
        self._threads = ThreadPoolExecutor(max(2, len(partitions)), thread_name_prefix="cursors")
        self._stores = {partition: CursorStore(settings, partition) for partition in partitions}
        self._tracer = trace.configure("penstock-dispatcher")
        self._clients = SubscriberClient(settings.max_event_bytes, Destinations(settings), self._owner)
        self._store = ReplyWriter(settings, failed, self._describe)
        self._secret_requests = SecretRequests(settings)
        secrets = KeptSecrets(self._secret_requests, self._owner.start)
        sender = AttemptSender(
            self._clients,
            self._store,
            self._tracer,
            settings.delivery_timeout_seconds,
            settings.max_event_bytes,
            credentials=DeliveryCredentials(self._account_tokens, secrets),
        )
        self._reread = RandomReader(settings, topics.MATCHED, DECODER, self._owner)
        self._reporter = Reporter(settings, "dispatcher", instance, failed)
        self._types = SeenTypes(self._reporter.seen_type)
        self._events = RandomReader(settings, topics.EVENTS, EVENT_DECODER, self._owner)
        self._kept = FurtherBack(self._events, KeptEvents(settings) if settings.history else None)
        self._dispatcher = Dispatcher(
            settings,
            partitions,
            sender,
            self._reporter,
            matched=self._reread,
            events=self._kept,
            secrets=secrets,
            failed=failed,
        )
        self._requests: TokenRequests | None = None
        self._ending = threading.Event()
        self._replays = Replays(
            self._dispatcher, self._kept, self._given_up, self._reporter, at_once=settings.catch_up_records
        )
        self._follower = SnapshotFollower(settings, self._announce, failed)
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._tail: TailReader[Matched] | None = None
        self._started = False
        self._flushing: asyncio.Task[None] | None = None

    def _account_tokens(self) -> AccountTokens:
        from penstock.oidc.tokens import AccountTokens, TokenRequests

        self._requests = TokenRequests(self._settings)
        return AccountTokens(self._requests, self._owner.start)

    def _announce(self, _: Snapshot) -> None:
        self._owner.hand_over(self._receive)

    def _receive(self) -> None:
        """There is a newer snapshot. What counts is the newest: several may have come since this was handed over."""
        if not self._first.done():
            self._first.set_result(None)
        elif self._started and self._follower.snapshot is not self._dispatcher.snapshot:
            self._apply()

    def _apply(self) -> None:
        snapshot = self._follower.snapshot
        self._clients.trust(snapshot.trusted)
        self._dispatcher.apply(snapshot)

    def _describe(self, uid: str, reply: CloudEvent) -> None:
        """A reply has come to a Broker, which may want to know which types come."""
        target = self._follower.snapshot.targets.get(uid)
        if target is not None and target.tells_types:
            self._types.note(uid, [reply])

    async def serve(self, stop: asyncio.Event) -> None:
        """Starts and works. A stop counts at any time, also while Kafka is waited for."""
        await first(self._start(), stop.wait(), self._owner.failed())
        self._owner.check()
        if self._tail is not None:
            await self._run(stop)

    async def _start(self) -> None:
        """Takes over and restores."""
        begun = time.monotonic()
        self._follower.start()
        await asyncio.gather(*(self._blocking(store.open) for store in self._stores.values()))
        partitions = self._dispatcher.partitions
        restored = await asyncio.gather(
            *(self._blocking(store.load, partitions[p].changed) for p, store in self._stores.items())
        )
        await self._first
        self._started = True
        self._apply()
        for partition, state in zip(self._stores, restored, strict=True):
            self._dispatcher.restore(partition, state)
        await asyncio.gather(*(self._dispatcher.check_tail(partition) for partition in self._partitions))
        starts = {partition: cursors.tail for partition, cursors in self._dispatcher.partitions.items()}
        self._tail = TailReader(
            self._settings, topics.MATCHED, starts, DECODER, deliver=self._dispatcher.take, owner=self._owner
        )
        self._tail.start()
        self._dispatcher.pump()
        log.info(
            "dispatching",
            partitions=self._partitions,
            version=self._dispatcher.snapshot.version,
            outstanding=self._dispatcher.outstanding,
            tails=starts,
            seconds=round(time.monotonic() - begun, 3),
        )

    async def _run(self, stop: asyncio.Event) -> None:
        """Works until stopped, or until something ends it."""
        self._owner.start(self._flush_forever(), "flush")
        self._owner.start(self._dispatcher.catch_up(), "catch up")
        self._owner.start(self._replays.run(), "replays")
        self._owner.start(self._each_second(), "each second")
        self._owner.start(self._measure(), "measure")
        try:
            await first(stop.wait(), self._owner.failed())
            self._owner.check()
            if self._tail is not None:
                await self._blocking(self._tail.stop)
            await self._dispatcher.drain(self._settings.drain_seconds)
            self._owner.check()
        finally:
            await self._owner.close()
        with contextlib.suppress(GivenUp, TimeoutError):
            await asyncio.wait_for(self._last_flush(), timeout=max(LAST_FLUSH_SECONDS, self._settings.drain_seconds))

    async def _last_flush(self) -> None:
        if self._flushing is not None:
            await self._flushing
        await self._flush(final=True)

    async def _flush_forever(self) -> None:
        """At a steady pace: a slow write shortens the pause after it."""
        pause = period = self._settings.cursor_flush_ms / 1000
        while True:
            begun = self._loop.time()
            await asyncio.sleep(pause)
            # A flush that has begun is finished even if the task is told to stop: two at once would clash.
            self._flushing = self._loop.create_task(self._flush())
            await asyncio.shield(self._flushing)
            self._dispatcher.pump()
            pause = max(period / 10, period - (self._loop.time() - begun - pause))

    async def _flush(self, final: bool = False) -> None:
        self._owner.check()  # after a failure the cursors may say more than was done
        batches = self._dispatcher.collect(final)
        commits = [self._blocking(self._stores[p].commit, entries) for p, entries in batches.items() if entries]
        if commits:
            # All of them are waited for, so that no two flushes ever meet in one partition.
            for failure in await asyncio.gather(*commits, return_exceptions=True):
                if isinstance(failure, BaseException):
                    raise failure

    async def _each_second(self) -> None:
        while True:
            await asyncio.sleep(EACH_SECONDS)
            self._dispatcher.each_second()
            for store in self._stores.values():
                store.look_after()

    async def _measure(self) -> None:
        """Asks Kafka where the log ends, not the reader of its tail: how far behind that is, is the question."""
        admin: TopicAdmin | None = None
        while True:
            try:
                admin = admin or TopicAdmin(self._settings)
                self._dispatcher.ends = await asyncio.to_thread(
                    admin.ends, topics.MATCHED, self._partitions, MEASURE_SECONDS
                )
            except NotDone:
                admin = None  # Kafka is away, or this client has lost it: the next one asks anew
            await asyncio.sleep(MEASURE_SECONDS)

    async def _given_up(self, partition: int, replay: Replay) -> list[int]:
        """The events in a partition that a Replay asks for because a route gave them up."""
        while True:
            try:
                recent = await asyncio.to_thread(self._read_given_up, partition, replay)
                return sorted({*recent, *await self._kept.given_up(partition, replay)})
            except KafkaAway as error:
                log.warning("what a route gave up cannot be read for now", partition=partition, error=describe(error))
                await asyncio.sleep(AGAIN_SECONDS)

    def _read_given_up(self, partition: int, replay: Replay) -> list[int]:
        return origins_given_up(attempts_given_up(self._settings, partition, self._ending), replay)

    async def _blocking(self, call: Callable[..., T], *arguments: object) -> T:
        return await self._loop.run_in_executor(self._threads, call, *arguments)

    async def close(self) -> None:
        """Lets go of everything, in whatever state it is."""
        self._ending.set()
        self._kept.close()
        for store in self._stores.values():
            store.given_up.set()
        await self._dispatcher.drain(0)
        await self._clients.close()
        if self._requests is not None:
            await self._requests.close()
        await self._secret_requests.close()
        await self._store.close()
        ends = [self._follower.stop, self._reread.stop, self._events.stop, self._reporter.close, self._tracer.close]
        if self._tail is not None:
            ends.append(self._tail.stop)
        await asyncio.gather(*(asyncio.to_thread(end) for end in (*ends, self._threads.shutdown)))
        await asyncio.gather(*(asyncio.to_thread(store.close) for store in self._stores.values()))


class ParentGone(RuntimeError):
    """Nobody would ever stop this task: it ends itself."""
