"""A partition that cannot be read, or written, keeps no other partition of the task waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest

from penstock.contract.reports import ReplayProgress
from penstock.contract.routes import Endpoint, Replay, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding
from penstock.dispatcher.cursors.cursor_store import Restored
from penstock.dispatcher.cursors.flusher import Flusher
from penstock.dispatcher.delivery import telemetry
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.decision import Verdict
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.outcome import Outcome
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.replay.replays import Replays
from penstock.kafka.random_reader import Chunk, NotReadNow
from penstock.kafka.reports import Reporter
from penstock.kafka.transactions import Entry
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.unit.dispatcher.dispatcher_double import Reports
from tests.unit.dispatcher.secrets_double import Kubernetes
from tests.unit.dispatcher.virtual_time import in_virtual_time

ROUTE = Route("r", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/"))
PAST = Route(
    "past", "Replay", "team", "p", "b", subscriber=Endpoint("http://s/"), replay=Replay(role="Trigger", end=(9, 9))
)
GOOD, STUCK = 0, 1


def record(partition: int, offset: int) -> Matched:
    raw = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    raw.append(("penstock_target", b"b"))
    return Matched(partition, offset, 0, offset, routes=("r",), raw=raw, value=b"")


async def no_generation() -> int:
    return 0


@dataclass
class Log:
    """A topic of two partitions."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the second one does."""

    async def chunk(self, partition: int, begin: int, end: int) -> Chunk[Matched]:
        if partition == STUCK:
            await self.answers.wait()
        return Chunk(begin, end, [record(partition, offset) for offset in range(begin, end)])

    async def record(self, partition: int, offset: int) -> Matched | None:
        await asyncio.sleep(0)
        if partition == STUCK and not self.answers.is_set():
            raise NotReadNow("partition 1 does not answer")
        return record(partition, offset)


class Subscriber:
    """Takes everything after a while."""

    names = None

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def routed(self, record: Matched, targets: object) -> None:
        """Nobody traces."""

    async def attempt(self, _: Route, __: object, record: Matched, ___: object) -> AttemptResult:
        await asyncio.sleep(0.01)
        self.seen.append((record.partition, record.offset))
        return AttemptResult(Verdict(Outcome.DELIVERED, 202), "http://s/", 0.0)

    def of(self, partition: int) -> list[int]:
        return sorted(offset for number, offset in self.seen if number == partition)


class Told(Reports):
    """Progress of Replays as well."""

    def replayed(self, progress: ReplayProgress) -> None:
        """The control plane is elsewhere."""

    def forget_replay(self, route: str, _: int) -> None:
        """The control plane is elsewhere."""


class Task:
    """A dispatcher of two partitions."""

    def __init__(self, *routes: Route, **limits: int) -> None:
        self.log, self.subscriber, self.told = Log(), Subscriber(), Told()
        self.dispatcher = Dispatcher(
            Settings(**limits),  # type: ignore[arg-type]  # limits, all of them numbers
            [GOOD, STUCK],
            cast("AttemptSender", self.subscriber),
            cast("Reporter", self.told),
            matched=self.log,
            events=self.log,
            secrets=Kubernetes().kept(),
            live_generation=no_generation,
            failed=lambda error: pytest.fail(repr(error)),
        )
        self.dispatcher.apply(Snapshot(1, routes={route.uid: route for route in routes}))

    def take(self, count: int, begin: int = 0) -> None:
        for partition in (GOOD, STUCK):
            self.dispatcher.take([record(partition, offset) for offset in range(begin, begin + count)])


@in_virtual_time
async def test_routes_catch_up_in_the_others() -> None:
    task = Task(ROUTE, max_outstanding=4, delivery_memory_mib=1)
    task.take(20)
    for recent in task.dispatcher.recent.values():
        recent.clear()
    catching_up = asyncio.create_task(task.dispatcher.catch_up())
    await asyncio.sleep(10)
    assert (task.subscriber.of(GOOD), len(task.subscriber.of(STUCK))) == (list(range(20)), 4)
    task.log.answers.set()
    await asyncio.sleep(10)
    assert task.subscriber.of(STUCK) == list(range(20))
    catching_up.cancel()
    await asyncio.gather(catching_up, return_exceptions=True)


@in_virtual_time
async def test_each_partition_finds_the_fence_behind_missed_records_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(ROUTE)
    whole = task.log.chunk

    async def chunk(partition: int, begin: int, end: int) -> Chunk[Matched]:
        found = await whole(partition, begin, end)
        return Chunk(begin, end, [one for one in found.records if one.offset < 20], 20)

    async def live() -> int:
        return 2

    monkeypatch.setattr(task.log, "chunk", chunk)
    monkeypatch.setattr(task.dispatcher, "_live_generation", live)
    task.take(10, begin=10)
    good, stuck = (task.dispatcher.partitions[number] for number in (GOOD, STUCK))
    assert (good.unfenced, stuck.unfenced) == (10, 10)
    catching_up = asyncio.create_task(task.dispatcher.catch_up())
    await asyncio.sleep(10)
    assert (good.unfenced, good.fences.in_force, stuck.unfenced) == (None, 2, 10)
    assert (task.subscriber.of(GOOD), task.subscriber.of(STUCK)) == (list(range(20)), [])
    task.log.answers.set()
    await asyncio.sleep(10)
    assert (stuck.unfenced, stuck.fences.in_force) == (None, 2)
    assert task.subscriber.of(STUCK) == list(range(20))
    catching_up.cancel()
    await asyncio.gather(catching_up, return_exceptions=True)


@in_virtual_time
async def test_deliveries_whose_event_cannot_be_read_hold_no_place_among_the_requests() -> None:
    task = Task(ROUTE, max_in_flight=2)
    for partition in (STUCK, GOOD):
        cursors = task.dispatcher.partitions[partition]
        cursor = Cursor("r", 10, None, cursors.changed)
        cursor.restore((), [Outstanding(offset, offset, 0) for offset in range(10)])
        task.dispatcher.restore(partition, Restored(cursors={"r": cursor}))
    task.dispatcher.pump()
    await asyncio.sleep(1)
    assert (task.subscriber.of(GOOD), task.subscriber.of(STUCK)) == (list(range(10)), [])
    task.dispatcher.each_second()
    assert all(not standing.failures for standing in task.told.standings), "the subscriber has done nothing wrong"
    task.log.answers.set()
    await asyncio.sleep(10)
    assert task.subscriber.of(STUCK) == list(range(10))


@in_virtual_time
async def test_a_partition_whose_cursors_cannot_be_written_delivers_its_share_and_then_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "UNWRITTEN_LIMIT", 10)
    task = Task(ROUTE, max_in_flight=1)
    task.dispatcher.unwritable.add(STUCK)
    for begin in range(0, 40, 2):
        task.take(2, begin)
        await asyncio.sleep(1)
        task.dispatcher.collect(only=[GOOD])
    assert (task.subscriber.of(GOOD), len(task.subscriber.of(STUCK))) == (list(range(40)), 5)
    task.dispatcher.unwritable.clear()
    for _ in range(20):
        task.dispatcher.collect()
        task.dispatcher.each_second()
        await asyncio.sleep(1)
    assert task.subscriber.of(STUCK) == list(range(40))


@in_virtual_time
async def test_while_a_flush_is_only_slow_a_partition_has_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "UNWRITTEN_LIMIT", 10)
    task = Task(ROUTE)
    task.dispatcher.take([record(GOOD, offset) for offset in range(9)])
    await asyncio.sleep(1)
    assert task.subscriber.of(GOOD) == list(range(9))


class Transactions:
    """Where flushes go. Those of the second partition are not committed until Kafka takes them."""

    def __init__(self, task: Task) -> None:
        self.takes = asyncio.Event()
        self.committed: dict[int, list[list[str]]] = {GOOD: [], STUCK: []}
        """Keys of each transaction."""
        self.under_way = 0
        self._scope = TaskScope()
        commits = {partition: partial(self._commit, partition) for partition in self.committed}
        self.flusher = Flusher(task.dispatcher, commits, self._scope, 0.1)
        self.flusher.add([GOOD, STUCK])
        self._running = self._scope.start(self.flusher.run(), "flush")

    async def _commit(self, partition: int, entries: list[Entry]) -> None:
        if partition == STUCK:
            self.under_way += 1
            assert self.under_way == 1, "one transaction at a time"
            await self.takes.wait()
            self.under_way -= 1
        self.committed[partition].append([entry.key for entry in entries])

    async def end(self) -> None:
        await self._scope.close()
        await self.flusher.finish()


@in_virtual_time
async def test_the_others_are_flushed_while_one_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "UNWRITTEN_LIMIT", 40)
    task = Task(ROUTE)
    transactions = Transactions(task)
    for begin in range(0, 100, 2):
        task.take(2, begin)
        await asyncio.sleep(1)
    assert task.subscriber.of(GOOD) == list(range(100))
    assert 45 <= len(transactions.committed[GOOD]) <= 105
    assert (transactions.committed[STUCK], task.dispatcher.unwritable) == ([], {STUCK})
    assert len(task.subscriber.of(STUCK)) < 40, "what would be repeated after a kill is bounded"
    transactions.takes.set()
    await asyncio.sleep(10)
    assert (task.subscriber.of(STUCK), task.dispatcher.unwritable) == (list(range(100)), set())
    await transactions.end()
    for flushes in transactions.committed.values():
        assert not any(key.startswith("tail/") for keys in flushes for key in keys[:-1]), "the tail comes last"


@in_virtual_time
async def test_the_last_flush_of_the_others_is_written_while_one_is_waited_for() -> None:
    task = Task(ROUTE)
    transactions = Transactions(task)
    task.take(2)
    await asyncio.sleep(1)
    task.take(2, 2)
    await asyncio.sleep(0.05)
    before = len(transactions.committed[GOOD])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(transactions.end(), 2)
    assert (len(transactions.committed[GOOD]), transactions.committed[STUCK]) == (before + 1, [])


@in_virtual_time
async def test_a_replay_goes_on_in_the_others() -> None:
    async def none(_: int, __: Replay) -> Sequence[int]:
        return ()

    task = Task(PAST)
    replays = Replays(task.dispatcher, task.log, none, cast("Reporter", task.told), at_once=4)
    running = asyncio.create_task(replays.run())
    await asyncio.sleep(10)
    assert (task.subscriber.of(GOOD), task.subscriber.of(STUCK)) == (list(range(9)), [])
    task.log.answers.set()
    await asyncio.sleep(10)
    assert task.subscriber.of(STUCK) == list(range(9))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
