"""The real dispatcher between doubles of Kafka and of subscribers: logs are lists, and a test gives the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.contract import records as headers
from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing
from penstock.contract.routes import Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor_store import decode_partition
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.decision import Verdict
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.outcome import Outcome, Withheld
from penstock.dispatcher.matched_record import KEY_HEADER, Matched
from penstock.dispatcher.replay.feed import StoredEvents
from penstock.history.schema.columns import HistoryProblem
from penstock.kafka.random_reader import Chunk
from penstock.kafka.reports import Reporter
from penstock.kafka.topic_ends import KafkaAway
from penstock.kafka.transactions import Entry
from penstock.settings import Settings
from tests.unit.dispatcher.secrets_double import Kubernetes
from tests.unit.dispatcher.virtual_time import turns

TARGET = "broker"
URL = "http://subscriber.example/"
WALL = 1_700_000_000.0


@dataclass(frozen=True)
class Written:
    """A record of `penstock.matched`, or of `penstock.events`: then the routes are those that its attributes say."""

    origin: int
    routes: tuple[str, ...]
    at: int
    generation: int = 0
    """Of the router that wrote it; 0: it does not say."""
    fence: bool = False


@dataclass
class Topic:
    """Partition 0 of `penstock.matched`, or of `penstock.events` where the origin is the offset."""

    keys: dict[int, str] = field(default_factory=dict)
    records: list[Written] = field(default_factory=list)
    first: int = 0
    """What is before it, retention has removed."""
    reads: int = 0
    begins: list[int] = field(default_factory=list)
    """Where the chunks began that were asked for."""
    away: str = ""
    """Why nothing can be read for now."""

    def at(self, offset: int) -> Matched | None:
        if not self.first <= offset < len(self.records):
            return None
        found = self.records[offset]
        key = self.keys.get(found.origin, "").encode()
        raw = [(KEY_HEADER, key)]
        if found.routes:
            named = attributes_of(found) | ({"id": key} if key else {})
            raw += [(f"ce_{name}", value) for name, value in named.items()]
            raw.append((headers.TARGET, TARGET.encode()))
        raw += [(headers.GENERATION, str(found.generation).encode())] if found.generation else []
        raw += [(headers.FENCE, str(found.generation - 1).encode())] if found.fence else []
        value = f"{found.origin}".encode()
        return Matched(0, offset, found.at, found.origin, routes=found.routes, raw=raw, value=value)

    async def chunk(self, _: int, begin: int, end: int) -> Chunk[Matched]:
        self.reads += 1
        self.begins.append(begin)
        await asyncio.sleep(0)
        if self.away:
            raise HistoryProblem(self.away)
        begin, log_end = max(begin, self.first), len(self.records)
        found = [record for offset in range(begin, end) if (record := self.at(offset)) is not None]
        return Chunk(begin, end, found, log_end if log_end < end else None)

    async def record(self, _: int, offset: int) -> Matched | None:
        self.reads += 1
        await asyncio.sleep(0)
        if self.away:
            raise HistoryProblem(self.away)
        return self.at(offset)


def attributes_of(event: Written) -> dict[str, bytes]:
    """An event has an attribute with the name of each route that it is for: `wants` is a filter by it."""
    required = {"id": str(event.origin).encode(), "source": b"/s", "type": b"t", "specversion": b"1.0"}
    return required | dict.fromkeys(event.routes, b"1")


def wants(uid: str) -> dict[str, str]:
    """The filter of a route for which events are made."""
    return {uid: "1"}


@dataclass
class Request:
    """An attempt under way."""

    route: str
    stage: int
    event: int
    """What the subscriber sees of it: the data names the origin."""
    answer: asyncio.Future[AttemptResult]


class Subscribers:
    """Takes every request, and answers when the test says so."""

    names = None

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.seen: list[tuple[str, int]] = []
        self.withheld = ""
        """Why no attempt can be made."""

    def routed(self, record: Matched, targets: object) -> None:
        """Nobody traces."""

    async def attempt(self, route: Route, stage: int, record: Matched, _: object) -> AttemptResult:
        if self.withheld:
            raise Withheld(self.withheld, FailureCause.TOKEN_UNAVAILABLE)
        request = Request(route.uid, stage, int(record.value or b""), asyncio.get_running_loop().create_future())
        self.requests.append(request)
        self.seen.append((route.uid, request.event))
        return await request.answer

    def answer(self, request: Request, *, good: bool) -> None:
        self.requests.remove(request)
        verdict = Verdict(Outcome.DELIVERED, 202) if good else Verdict(Outcome.RETRYABLE, 503)
        request.answer.set_result(AttemptResult(verdict, URL, 0.0))


class Reports:
    """What is told to the control plane."""

    instance = "dispatcher-0"

    def __init__(self) -> None:
        self.losses: list[tuple[str, int, int]] = []
        self.standings: list[Standing] = []
        self.gone: list[str] = []
        self.shut_outs: list[tuple[int, int]] = []

    def standing(self, standing: Standing) -> None:
        self.standings.append(standing)

    def no_standing(self, route: str) -> None:
        self.gone.append(route)

    def ack(self, version: int) -> None:
        """Nobody listens."""

    def shut_out(self, partition: int, generation: int, fence: int) -> None:
        self.shut_outs.append((generation, fence))

    def loss(self, route: str, _: int, first: int, last: int) -> None:
        self.losses.append((route, first, last))


@dataclass
class Node:
    """A task from one restart to the next; what is in Kafka, and what subscribers got, outlive it."""

    routes: dict[str, Route]
    matched: Topic
    events: Topic
    limits: dict[str, Any] = field(default_factory=dict)
    flushes: list[list[Entry]] = field(default_factory=list)
    """`penstock.cursors`, transaction by transaction."""
    seen: list[tuple[str, int]] = field(default_factory=list)
    reports: Reports = field(default_factory=Reports)
    unreadable: frozenset[str] = frozenset()
    """Routes whose record cannot be read: a task that starts knows nothing else of them."""

    kubernetes: Kubernetes = field(default_factory=Kubernetes)

    history: StoredEvents | None = None
    """By way of which events are read, in place of Kafka alone."""

    wall: float = WALL
    """What the clock on the wall shows when the loop's shows 0."""

    live: int | None = None
    """The generation from which routing resumes; None: that of the last fence."""
    reports_away: bool = False
    """Whether it cannot be read from which generation routing resumes."""

    given: Snapshot | None = None
    """What a task finds when it starts, in place of these routes."""

    def snapshot(self, version: int) -> Snapshot:
        """What a follower makes of the routes topic."""
        if self.given is not None:
            return self.given
        readable = {uid: route for uid, route in self.routes.items() if uid not in self.unreadable}
        return Snapshot(version, routes=readable, unreadable=self.unreadable)

    async def boot(self) -> None:
        loop = asyncio.get_running_loop()
        self.subscribers = Subscribers()
        self.subscribers.seen = self.seen
        self.dispatcher = Dispatcher(
            Settings(**self.limits),
            [0],
            cast("AttemptSender", self.subscribers),
            cast("Reporter", self.reports),
            matched=self.matched,
            events=self.history or self.events,
            secrets=self.kubernetes.kept(),
            live_generation=self._live_generation,
            wall_clock=lambda: self.wall + loop.time(),
            failed=_unexpected,
        )
        self.cursors = self.dispatcher.partitions[0]
        self.dispatcher.apply(self.snapshot(1))
        self.dispatcher.restore(0, decode_partition(self.table(), 0, self.cursors.changed))
        await self.dispatcher.check_tail(0)
        self.position = self.cursors.tail or 0
        self._catching_up = asyncio.create_task(self.dispatcher.catch_up())
        self.dispatcher.pump()

    async def _live_generation(self) -> int:
        await asyncio.sleep(0)
        if self.reports_away:
            raise KafkaAway("the reports cannot be read")
        fences = (one.generation for one in self.matched.records if one.fence)
        return max(fences, default=0) if self.live is None else self.live

    def table(self) -> dict[str, bytes]:
        """The newest values of the cursors topic."""
        values: dict[str, bytes] = {}
        for entry in (entry for flush in self.flushes for entry in flush if entry.topic.endswith("cursors")):
            if entry.value is None:
                values.pop(entry.key, None)
            else:
                values[entry.key] = entry.value
        return values

    async def halt(self) -> None:
        """The process is gone."""
        self._catching_up.cancel()
        await asyncio.gather(self._catching_up, return_exceptions=True)
        await self.dispatcher.drain(0)

    async def crash(self) -> None:
        await self.halt()
        await self.boot()

    async def read_tail(self) -> None:
        self.position = max(self.position, self.matched.first)
        record = self.matched.at(self.position)
        if record is not None:
            self.position += 1
            self.dispatcher.take([record])
        await turns()

    async def answer(self, which: int, good: bool) -> None:
        await turns()
        if self.subscribers.requests:
            self.subscribers.answer(self.subscribers.requests[which % len(self.subscribers.requests)], good=good)
        await turns()

    def second(self) -> None:
        """A second is over."""
        self.dispatcher.firsts, self.dispatcher.ends = {0: self.matched.first}, {0: len(self.matched.records)}
        self.dispatcher.each_second()

    def flush(self) -> None:
        entries = self.dispatcher.collect()[0]
        if entries:
            self.flushes.append(entries)

    async def settle_requests(self) -> None:
        """Answers everything that is under way."""
        while self.subscribers.requests:
            await self.answer(0, good=True)

    async def settle(self, deaf: str | None = None) -> None:
        """Until nothing happens any more; `deaf` never answers."""
        quiet = 0
        while quiet < 3:
            before = self._progress()
            while self.position < len(self.matched.records):
                await self.read_tail()
            while talking := [request for request in self.subscribers.requests if request.route != deaf]:
                self.subscribers.answer(talking[0], good=True)
                await turns(3)
            self.second()
            await asyncio.sleep(1.1)
            quiet = quiet + 1 if self._progress() == before else 0

    def _progress(self) -> tuple[object, ...]:
        positions = [(cursor.next, cursor.resume, cursor.gap) for cursor in self.cursors.cursors.values()]
        return self.position, len(self.seen), self.dispatcher.outstanding, positions


def _unexpected(error: BaseException) -> None:
    raise AssertionError("the task would have ended") from error
