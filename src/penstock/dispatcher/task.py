"""One dispatcher task: owns partitions, from taking them over to handing them back. Needs Kafka, not Spark.

Start: take the partitions over (fences a predecessor), read the snapshot, then the cursors, and resume from them.
Stop: read nothing more, let requests end within the drain time, write the cursors a last time.
Failure: an exception in any part ends the task, and nothing more is written. What was not handled is not covered by the
cursors yet, and is read again.

Partitions do not wait for each other: one without a leader is taken over, read and flushed when that is possible again,
while the others continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import structlog

from penstock.contract import topics
from penstock.contract.reports import SeenTypes
from penstock.contract.routes import Replay
from penstock.contract.snapshot import Snapshot
from penstock.destinations import Destinations
from penstock.dispatcher.cursors.cursor_store import CursorStore, Restored
from penstock.dispatcher.cursors.flusher import Flusher
from penstock.dispatcher.cursors.partition import Logs
from penstock.dispatcher.delivery.attempt import AttemptSender
from penstock.dispatcher.delivery.credentials import DeliveryCredentials
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.delivery.retention import (
    EventRate,
    Forecast,
    RetentionLimits,
    bytes_of,
    horizon,
    limits_of,
)
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.matched_record import DECODER, EVENT_DECODER, Matched
from penstock.dispatcher.replay.archive import EventArchive
from penstock.dispatcher.replay.replays import Replays
from penstock.dispatcher.replay.selection import failed_attempts, failed_origins
from penstock.dispatcher.secrets import SecretCache, SecretRequests
from penstock.events.event import CloudEvent
from penstock.history.reader.table_events import KeptEvents
from penstock.history.writer.upkeep import removed_soon
from penstock.kafka.admin import NotDone, TopicAdmin
from penstock.kafka.random_reader import NotReadNow, RandomReader
from penstock.kafka.reports import Reporter, read_live_generation
from penstock.kafka.table import SnapshotFollower
from penstock.kafka.tail import TailReader
from penstock.kafka.topic_ends import KafkaAway
from penstock.kafka.transactions import StoppedWaiting
from penstock.observability import trace
from penstock.observability.logs import describe
from penstock.runtime.lifecycle import first
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.oidc.tokens import AccountTokens, TokenRequests

log = structlog.get_logger()

PARENT_CHECK_SECONDS = 1.0
SPARK_DAEMON = "pyspark.daemon"
"""The module of the daemon that Spark forks its Python workers from, unless it is configured to start each one."""
EACH_SECONDS = 1.0
MEASURE_SECONDS = 2.0
LAST_FLUSH_SECONDS = 1.0
FORESEE_SECONDS = 30.0
SAMPLED_EVENTS = 20
AGAIN_SECONDS = 2.0
ASK_SECONDS = 5.0
START_SECONDS = 10.0
"""How long partitions that are ready wait for the others when the task starts."""

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
    """Raises when the process that started this one is gone: nothing else would ever stop the task."""
    while os.getppid() == parent and daemon_lives():  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(PARENT_CHECK_SECONDS)
    raise ParentGone("the process that started this task is gone")


def daemon_lives() -> bool:
    """Whether Spark's daemon is alive, if this process is a worker of one.

    If the daemon is killed while its workers still start, `getppid` already returns another parent, but the daemon's
    pid is still that of their process group.
    """
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
        self._scope = TaskScope()
        failed = self._scope.fail
        # One more than partitions, each of which may keep a thread waiting for Kafka.
        self._threads = ThreadPoolExecutor(len(partitions) + 1, thread_name_prefix="cursors")
        self._stores = {partition: CursorStore(settings, partition) for partition in partitions}
        self._tracer = trace.configure("penstock-dispatcher")
        self._clients = SubscriberClient(settings.max_event_bytes, Destinations(settings), self._scope)
        self._store = ReplyWriter(settings, failed, self._note_type)
        self._secret_requests = SecretRequests(settings)
        secrets = SecretCache(self._secret_requests, self._scope.start)
        sender = AttemptSender(
            self._clients,
            self._store,
            self._tracer,
            settings.delivery_timeout_seconds,
            settings.max_event_bytes,
            credentials=DeliveryCredentials(self._account_tokens, secrets),
        )
        self._reread = RandomReader(settings, topics.MATCHED, DECODER, self._scope)
        self._reporter = Reporter(settings, "dispatcher", instance, failed)
        self._types = SeenTypes(self._reporter.seen_type)
        self._events = RandomReader(settings, topics.EVENTS, EVENT_DECODER, self._scope)
        self._events_best_effort = EventArchive(self._events, KeptEvents(settings) if settings.history else None)
        self._events_strict = EventArchive(
            self._events, KeptEvents(settings) if settings.history else None, strict=True
        )
        """Replays take what there is; other routes have to know what is missing."""
        self._dispatcher = Dispatcher(
            settings,
            partitions,
            sender,
            self._reporter,
            matched=self._reread,
            events=self._events_strict,
            secrets=secrets,
            live_generation=partial(asyncio.to_thread, read_live_generation, settings),
            failed=failed,
        )
        self._dispatcher.awaited.update(partitions)
        commits = {partition: partial(self._blocking, store.commit) for partition, store in self._stores.items()}
        self._flusher = Flusher(self._dispatcher, commits, self._scope, settings.cursor_flush_ms / 1000)
        self._requests: TokenRequests | None = None
        self._ending = threading.Event()
        self._replays = Replays(
            self._dispatcher,
            self._events_best_effort,
            self._failed_events,
            self._reporter,
            at_once=settings.catch_up_records,
        )
        self._follower = SnapshotFollower(settings, self._announce, failed)
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._admin: TopicAdmin | None = None
        self._loaded: dict[int, Restored] = {}
        """Cursors that were read and not restored yet, by partition."""
        self._tails: list[TailReader[Matched]] = []
        """One for all partitions, except those that could be taken over only later."""
        self._started = False

    def _account_tokens(self) -> AccountTokens:
        from penstock.oidc.tokens import AccountTokens, TokenRequests

        self._requests = TokenRequests(self._settings)
        return AccountTokens(self._requests, self._scope.start)

    def _announce(self, _: Snapshot) -> None:
        self._scope.hand_over(self._receive)

    def _receive(self) -> None:
        """There is a newer snapshot. The newest is applied: there may be several since this was handed over."""
        if not self._first.done():
            self._first.set_result(None)
        elif self._started and self._follower.snapshot is not self._dispatcher.snapshot:
            self._apply()

    def _apply(self) -> None:
        snapshot = self._follower.snapshot
        self._clients.trust(snapshot.trusted)
        self._dispatcher.apply(snapshot)

    def _note_type(self, uid: str, reply: CloudEvent) -> None:
        """A reply was stored in a Broker, which may record the types of its events."""
        target = self._follower.snapshot.targets.get(uid)
        if target is not None and target.tells_types:
            self._types.note(uid, [reply])

    async def serve(self, stop: asyncio.Event) -> None:
        """Starts and delivers. Stops at any time, also while it waits for Kafka."""
        await first(self._start(), stop.wait(), self._scope.failed())
        self._scope.check()
        if self._tails:
            await self._run(stop)

    async def _start(self) -> None:
        """Takes over and restores."""
        begun = time.monotonic()
        self._follower.start()
        loading = {partition: self._scope.start(self._load(partition), "load") for partition in self._partitions}
        await asyncio.wait(loading.values(), timeout=START_SECONDS)
        await self._first
        self._started = True
        self._apply()
        joining = {self._scope.start(self._join(p, load), "join"): p for p, load in loading.items()}
        done, late = await asyncio.wait(joining, timeout=START_SECONDS)
        if not done:
            done, late = await asyncio.wait(joining, return_when=asyncio.FIRST_COMPLETED)
        self._scope.check()
        self._deliver(sorted(joining[task] for task in done), begun)
        for task in late:
            log.error("a partition cannot be taken over yet; the others are served", partition=joining[task])
            self._scope.start(self._deliver_later(task, joining[task], begun), "deliver later")

    async def _load(self, partition: int) -> None:
        """Takes a partition over and reads its cursors."""
        store, cursors = self._stores[partition], self._dispatcher.partitions[partition]
        await self._blocking(store.open)
        self._loaded[partition] = await self._blocking(store.load, cursors.changed)

    async def _join(self, partition: int, loading: asyncio.Task[object]) -> None:
        """Resumes a partition from its cursors. The snapshot is in force."""
        await loading
        self._dispatcher.restore(partition, self._loaded.pop(partition))
        self._dispatcher.check_logs(partition, *await self._find_logs(partition))
        while True:
            try:
                await self._dispatcher.check_event(partition, self._events)
                break
            except NotReadNow:
                await asyncio.sleep(AGAIN_SECONDS)
        await self._dispatcher.check_tail(partition)

    async def _deliver_later(self, joining: asyncio.Task[object], partition: int, begun: float) -> None:
        await joining
        self._deliver([partition], begun)

    def _deliver(self, partitions: list[int], begun: float) -> None:
        """Reads the tails of partitions that have joined, and flushes their changes."""
        starts = {partition: self._dispatcher.partitions[partition].tail for partition in partitions}
        tail = TailReader(
            self._settings, topics.MATCHED, starts, DECODER, deliver=self._dispatcher.take, scope=self._scope
        )
        self._tails.append(tail)
        tail.start()
        self._flusher.add(partitions)
        self._dispatcher.pump()
        log.info(
            "dispatching",
            partitions=partitions,
            version=self._dispatcher.snapshot.version,
            outstanding=self._dispatcher.outstanding,
            tails=starts,
            seconds=round(time.monotonic() - begun, 3),
        )

    async def _find_logs(self, partition: int) -> tuple[Logs, int]:
        """The ids of the current topics, and where a partition of the events ends. Waits while Kafka is unreachable."""
        while True:
            try:
                self._admin = admin = self._admin or TopicAdmin(self._settings)
                return await asyncio.to_thread(self._ask_for_logs, admin, partition)
            except NotDone as error:
                self._admin = None  # Kafka is unreachable, or this client has lost it: the next request uses a new one
                log.warning("the ids and ends of topics cannot be read", partition=partition, error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    def _ask_for_logs(self, admin: TopicAdmin, partition: int) -> tuple[Logs, int]:
        ids = admin.ids([topics.EVENTS, topics.MATCHED], ASK_SECONDS)
        end = admin.ends(topics.EVENTS, [partition], ASK_SECONDS)[partition]
        return Logs(ids[topics.EVENTS], ids[topics.MATCHED]), end

    async def _run(self, stop: asyncio.Event) -> None:
        """Delivers until stopped, or until a part fails."""
        self._scope.start(self._flusher.run(), "flush")
        self._scope.start(self._dispatcher.catch_up(), "catch up")
        self._scope.start(self._replays.run(), "replays")
        self._scope.start(self._each_second(), "each second")
        self._scope.start(self._measure(), "measure")
        self._scope.start(self._foresee(), "foresee")
        try:
            await first(stop.wait(), self._scope.failed())
            self._scope.check()
            await asyncio.gather(*(self._blocking(tail.stop) for tail in self._tails))
            await self._dispatcher.drain(self._settings.drain_seconds)
            self._scope.check()
        finally:
            await self._scope.close()
        with contextlib.suppress(StoppedWaiting, TimeoutError):
            await asyncio.wait_for(self._flusher.finish(), max(LAST_FLUSH_SECONDS, self._settings.drain_seconds))

    async def _each_second(self) -> None:
        while True:
            await asyncio.sleep(EACH_SECONDS)
            self._dispatcher.each_second()
            for store in self._stores.values():
                store.look_after()

    async def _measure(self) -> None:
        """Asks Kafka where the log begins and ends: the lag of the tail's own reader is what is measured."""
        admin: TopicAdmin | None = None
        while True:
            try:
                admin = admin or TopicAdmin(self._settings)
                wanted = topics.MATCHED, self._partitions, MEASURE_SECONDS
                firsts = await asyncio.to_thread(admin.known_firsts, *wanted)
                self._dispatcher.ends |= await asyncio.to_thread(admin.known_ends, *wanted)
                self._dispatcher.firsts |= firsts
            except NotDone:
                admin = None  # Kafka is unreachable, or this client has lost it: the next request uses a new one
            await asyncio.sleep(MEASURE_SECONDS)

    async def _foresee(self) -> None:
        """Forecasts, while routes wait, which events retention will soon remove from Kafka, and whether the history has
        them. A partition without a leader keeps its last forecast."""
        admin: TopicAdmin | None = None
        rates = {partition: EventRate() for partition in self._partitions}
        while True:
            waiting = self._dispatcher.longest_waiting()
            if not waiting:
                self._dispatcher.forecasts = {}
            else:
                try:
                    admin = admin or TopicAdmin(self._settings)
                    retained = await asyncio.to_thread(self._ask_what_is_retained, admin)
                    self._dispatcher.forecasts |= await self._forecasts(retained, rates, waiting)
                except NotDone:
                    admin = None
            await asyncio.sleep(FORESEE_SECONDS)

    def _ask_what_is_retained(self, admin: TopicAdmin) -> _RetainedInKafka:
        limits = limits_of(admin.configs([topics.EVENTS], ASK_SECONDS)[topics.EVENTS])
        wanted, young = (topics.EVENTS, self._partitions), time.time() + limits.soon_seconds - limits.seconds
        firsts, ends = admin.known_firsts(*wanted, ASK_SECONDS), admin.known_ends(*wanted, ASK_SECONDS)
        aged = admin.known_since(*wanted, young, ASK_SECONDS) if math.isfinite(limits.seconds) else firsts
        return _RetainedInKafka(limits, firsts, ends, aged)

    async def _forecasts(
        self, retained: _RetainedInKafka, rates: Mapping[int, EventRate], waiting: Mapping[int, int]
    ) -> dict[int, Forecast]:
        found = {}
        for partition in retained.firsts.keys() & retained.ends.keys() & retained.aged.keys():
            first, end = retained.firsts[partition], retained.ends[partition]
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    newest = await self._events.chunk(partition, max(first, end - SAMPLED_EVENTS), end)
            except TimeoutError:
                continue  # it has just lost its leader; the others must not wait for it
            rate = rates[partition].saw(end, self._loop.time())
            gone = horizon(
                first, end, retained.aged[partition], retained.limits, rate=rate, size=bytes_of(newest.records)
            )
            found[partition] = Forecast(gone)
        if any(p in found and origin < found[p].horizon for p, origin in waiting.items()):
            lasting = await self._events_strict.lasting(partial(self._removed_soon, retained.limits.soon_seconds))
            found = {p: Forecast(forecast.horizon, lasting.get(p, ())) for p, forecast in found.items()}
        return found

    def _removed_soon(self, seconds: float) -> float:
        return removed_soon(self._settings, datetime.now(UTC), timedelta(seconds=seconds))

    async def _failed_events(self, partition: int, replay: Replay) -> list[int]:
        """The events in a partition that a Replay selects because the route dropped or dead-lettered them."""
        while True:
            try:
                recent = await asyncio.to_thread(self._read_failed_events, partition, replay)
                return sorted({*recent, *await self._events_best_effort.given_up(partition, replay)})
            except KafkaAway as error:
                log.warning(
                    "the failed deliveries of a route cannot be read", partition=partition, error=describe(error)
                )
                await asyncio.sleep(AGAIN_SECONDS)

    def _read_failed_events(self, partition: int, replay: Replay) -> list[int]:
        return failed_origins(failed_attempts(self._settings, partition, self._ending), replay)

    async def _blocking(self, call: Callable[..., T], *arguments: object) -> T:
        return await self._loop.run_in_executor(self._threads, call, *arguments)

    async def close(self) -> None:
        """Closes everything, in whatever state it is."""
        self._ending.set()
        self._events_best_effort.close()
        self._events_strict.close()
        for store in self._stores.values():
            store.stop_waiting.set()
        await self._scope.close()
        await self._dispatcher.drain(0)
        await self._clients.close()
        if self._requests is not None:
            await self._requests.close()
        await self._secret_requests.close()
        await self._store.close()
        ends = [self._follower.stop, self._reread.stop, self._events.stop, self._reporter.close, self._tracer.close]
        ends += [tail.stop for tail in self._tails]
        await asyncio.gather(*(asyncio.to_thread(end) for end in (*ends, self._threads.shutdown)))
        await asyncio.gather(*(asyncio.to_thread(store.close) for store in self._stores.values()))


class _RetainedInKafka(NamedTuple):
    """What Kafka retains of the events, by partition, of those that have a leader."""

    limits: RetentionLimits
    firsts: dict[int, int]
    ends: dict[int, int]
    aged: dict[int, int]
    """The first that is young enough not to be removed soon."""


class ParentGone(RuntimeError):
    """The parent process is gone, so the task ends itself."""
