"""Replays in a task: what they take, how fast, what they tell, and what is left when the task is killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from penstock.contract.attempts import AttemptRecord, Result, encode
from penstock.contract.reports import ReplayProgress
from penstock.contract.routes import Endpoint, Replay, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.matched_record import Matched
from penstock.dispatcher.replay import replays as module
from penstock.dispatcher.replay.feed import ReplayPace, share
from penstock.dispatcher.replay.replays import MAX_OUTSTANDING, Replays
from penstock.dispatcher.replay.selection import ReplaySelection, as_replayed, attempt_of, failed_origins
from penstock.kafka.random_reader import Chunk
from penstock.kafka.reports import Reporter
from tests.unit.dispatcher.dispatcher_double import Node, Reports, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time, turns

LIVE = Route("live", "Trigger", "ns", "live", "broker", subscriber=Endpoint("http://s/"))


def replay_route(uid: str = "r", start: int = 0, end: int = 10, **changes: Any) -> Route:
    replay = msgspec.structs.replace(Replay("Trigger", end=(end,)), **changes)
    return Route(uid, "Replay", "ns", uid, "broker", subscriber=Endpoint("http://s/"), start=(start,), replay=replay)


def event(offset: int, **headers: str | None) -> Matched:
    fields = {
        "ce_specversion": "1.0",
        "ce_id": f"e{offset}",
        "ce_source": "/s",
        "ce_type": "even" if offset % 2 == 0 else "odd",
        "penstock_target": "broker",
        **headers,
    }
    raw = [(name, value.encode()) for name, value in fields.items() if value is not None]
    return Matched(0, offset, offset * 1000, offset, routes=(), raw=raw, value=f"{offset}".encode())


@dataclass
class Stored:
    """`penstock.events`: an event a second."""

    count: int = 10
    first: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)

    async def chunk(self, _: int, begin: int, end: int) -> Chunk[Matched]:
        await asyncio.sleep(0)
        begin = max(begin, min(self.first, end))
        self.reads.append((begin, end))
        return Chunk(begin, end, [event(offset) for offset in range(begin, min(end, self.count))])

    async def record(self, _: int, offset: int) -> Matched | None:
        await asyncio.sleep(0)
        return event(offset) if self.first <= offset < self.count else None


class Told(Reports):
    """What the control plane hears."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[str, ReplayProgress] = {}
        self.forgotten: list[str] = []

    def replayed(self, progress: ReplayProgress) -> None:
        self.newest[progress.route] = progress

    def forget_replay(self, route: str, _: int) -> None:
        self.forgotten.append(route)


class Stage:
    """A task with Replays, over kills."""

    def __init__(
        self, *routes: Route, stored: Stored | None = None, given_up: Sequence[int] = (), slow: float = 0.0
    ) -> None:
        self.stored, self._given_up, self._slow, self.told = stored or Stored(), given_up, slow, Told()
        self.node = Node({route.uid: route for route in routes}, Topic(), cast("Topic", self.stored))
        self.node.reports = self.told
        self._running: asyncio.Task[None] | None = None

    async def boot(self) -> None:
        await self.node.boot()

        async def given_up(_: int, __: Replay) -> Sequence[int]:
            await asyncio.sleep(self._slow)
            return self._given_up

        replays = Replays(
            self.node.dispatcher, self.stored, given_up, cast("Reporter", self.told), at_once=4, wall_clock=lambda: 7.0
        )
        self._running = asyncio.create_task(replays.run())

    async def kill(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.node.halt()

    @property
    def seen(self) -> list[int]:
        return [origin for uid, origin in self.node.seen if uid != "live"]


@contextlib.asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[Stage]:
    await stage.boot()
    yield stage
    await stage.kill()


@in_virtual_time
async def test_a_replay_delivers_its_window_and_says_that_it_is_done() -> None:
    async with running(Stage(replay_route(start=2, end=8))) as stage:
        await stage.node.settle()
        assert sorted(stage.seen) == [2, 3, 4, 5, 6, 7]
        progress = stage.told.newest["r"]
        assert (progress.position, progress.counted, progress.failed, progress.finished) == (8, 6, 0, True)


@in_virtual_time
async def test_what_was_done_before_a_kill_is_not_done_again_and_nothing_is_missing() -> None:
    stage = Stage(replay_route())
    await stage.boot()
    await asyncio.sleep(2)
    for _ in range(3):
        await stage.node.answer(0, good=True)
    stage.node.flush()
    before = sorted(stage.seen)
    assert before == list(range(10))
    await stage.kill()
    await stage.boot()
    await stage.node.settle()
    again = sorted(stage.seen[len(before) :])
    assert again == list(range(3, 10)), "only what was under way"
    assert stage.told.newest["r"].counted == 10
    assert stage.told.newest["r"].finished
    await stage.kill()


@in_virtual_time
async def test_after_a_kill_before_anything_was_written_down_it_begins_again() -> None:
    stage = Stage(replay_route())
    await stage.boot()
    await asyncio.sleep(2)
    await stage.kill()
    await stage.boot()
    await stage.node.settle()
    assert sorted(set(stage.seen)) == list(range(10))
    assert stage.told.newest["r"].counted == 10
    await stage.kill()


@in_virtual_time
async def test_it_is_fed_only_as_fast_as_it_is_delivered() -> None:
    async with running(Stage(replay_route(end=1000), stored=Stored(1000))) as stage:
        stage.node.dispatcher.schedule._max_in_flight = 1000
        await asyncio.sleep(5)
        cursor = stage.node.cursors.cursors["r"]
        assert len(cursor.outstanding) == MAX_OUTSTANDING
        assert cursor.next == MAX_OUTSTANDING
        assert max(end for _, end in stage.stored.reads) <= MAX_OUTSTANDING + 4


@in_virtual_time
async def test_a_rate_is_kept() -> None:
    async with running(Stage(replay_route(end=1000, rate=10.0), stored=Stored(1000))) as stage:
        for _ in range(40):
            await asyncio.sleep(0.1)
            await stage.node.settle_requests()
        assert 38 <= len(stage.seen) <= 42


@in_virtual_time
async def test_a_dry_run_counts_and_sends_nothing() -> None:
    async with running(Stage(replay_route(dry_run=True, filters=[{"exact": {"type": "odd"}}]))) as stage:
        await asyncio.sleep(3)
        assert stage.seen == []
        progress = stage.told.newest["r"]
        assert (progress.counted, progress.under_way, progress.finished) == (5, 0, True)


@in_virtual_time
async def test_two_replays_are_independent() -> None:
    async with running(Stage(replay_route("a", 0, 5), replay_route("b", 5, 10))) as stage:
        await stage.node.settle(deaf="a")
        assert stage.told.newest["b"].finished
        assert not stage.told.newest["a"].finished
        await stage.node.settle()
        assert stage.told.newest["a"].finished


@in_virtual_time
async def test_a_replay_that_fails_unexpectedly_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def strange(self: ReplaySelection, record: Matched) -> bool:
        if self.route.uid == "a" and record.origin == 3:
            raise ValueError("strange")
        return True

    monkeypatch.setattr(ReplaySelection, "wants", strange)
    async with running(Stage(replay_route("a", 0, 5), replay_route("b", 5, 10))) as stage:
        await stage.node.settle()
        await asyncio.sleep(2)
        assert stage.told.newest["b"].finished
        failed = stage.told.newest["a"]
        assert (failed.problem, failed.counted, failed.finished) == ("ValueError: strange", 3, False)
        assert sorted(stage.seen) == [0, 1, 2, 5, 6, 7, 8, 9]


@in_virtual_time
async def test_live_events_do_not_wait_behind_a_replay_that_nobody_answers() -> None:
    async with running(Stage(LIVE, replay_route(end=1000), stored=Stored(1000))) as stage:
        await asyncio.sleep(5)
        stage.node.matched.records.append(Written(1000, ("live",), 0))
        await stage.node.read_tail()
        assert ("live", 1000) in stage.node.seen


@in_virtual_time
async def test_a_replay_that_is_deleted_stops_and_leaves_nothing() -> None:
    async with running(Stage(replay_route(end=1000, rate=5.0), stored=Stored(1000))) as stage:
        await asyncio.sleep(2)
        stage.node.dispatcher.apply(Snapshot(2))
        await turns()
        before = len(stage.seen)
        await asyncio.sleep(5)
        assert len(stage.seen) == before
        stage.node.flush()
        assert not [key for key in stage.node.table() if key.startswith(("r/", "delivery/r"))]
        assert stage.told.forgotten == ["r"]


@in_virtual_time
async def test_events_that_are_no_longer_kept_are_counted_as_missing() -> None:
    async with running(Stage(replay_route(), stored=Stored(first=6))) as stage:
        await stage.node.settle()
        assert sorted(stage.seen) == [6, 7, 8, 9]
        progress = stage.told.newest["r"]
        assert (progress.counted, progress.missing, progress.finished) == (4, 6, True)


@in_virtual_time
async def test_what_a_route_gave_up_comes_again() -> None:
    async with running(Stage(replay_route(given_up_by="live"), given_up=[1, 4, 5, 8, 9, 12])) as stage:
        await stage.node.settle()
        assert sorted(stage.seen) == [1, 4, 5, 8, 9]
        assert stage.told.newest["r"].finished


@in_virtual_time
async def test_a_replay_that_is_deleted_while_it_looks_for_what_was_given_up_harms_nobody() -> None:
    async with running(
        Stage(replay_route("a", given_up_by="live"), replay_route("b"), given_up=[1], slow=3.0)
    ) as stage:
        await asyncio.sleep(1)
        stage.node.dispatcher.apply(Snapshot(2, routes={"b": replay_route("b")}))
        await stage.node.settle()
        assert {uid for uid, _ in stage.node.seen} == {"b"}
        assert stage.told.newest["b"].finished


@in_virtual_time
async def test_a_paused_replay_waits() -> None:
    paused = msgspec.structs.replace(replay_route(), paused=True)
    async with running(Stage(paused)) as stage:
        await asyncio.sleep(2)
        assert stage.seen == []
        stage.node.dispatcher.apply(Snapshot(2, routes={"r": replay_route()}))
        await stage.node.settle()
        assert len(stage.seen) == 10


@in_virtual_time
async def test_an_event_that_nobody_takes_is_counted_as_failed() -> None:
    async with running(Stage(replay_route(end=2))) as stage:
        await asyncio.sleep(2)
        await stage.node.answer(0, good=False)
        await stage.node.settle()
        progress = stage.told.newest["r"]
        assert (progress.counted, progress.failed, progress.under_way, progress.finished) == (2, 1, 0, True)


def test_reports_are_told_again_now_and_then() -> None:
    assert module.REPEAT_SECONDS > module.REPORT_SECONDS


@pytest.mark.parametrize(
    ("changes", "headers", "wanted"),
    [
        ({}, {}, True),
        ({}, {"penstock_target": "other"}, False),
        ({}, {"penstock_target": None, "penstock_marker": "1:2:3"}, False),
        ({}, {"ce_id": None}, False),
        ({"ids": ("e4",)}, {}, True),
        ({"ids": ("e5",)}, {}, False),
        ({"since": 4.0, "until": 5.0}, {}, True),
        ({"since": 4.001}, {}, False),
        ({"until": 4.0}, {}, False),
        ({"since": 9.0, "given_up_by": "x"}, {}, True),
        ({"filters": [{"exact": {"type": "odd"}}]}, {}, False),
        ({"filters": [{"cesql": "type LIKE 'ev%'"}]}, {}, True),
        ({"filters": [{"nonsense": 1}]}, {}, False),
        ({"filters": [{"data": {"a": {"exists": False}}}]}, {"content-type": "application/json"}, True),
        ({"filters": [{"data": {"a": {"exists": False}}}]}, {"content-type": "text/plain"}, False),
    ],
)
def test_what_a_replay_takes(changes: dict[str, Any], headers: dict[str, str | None], wanted: bool) -> None:
    route = replay_route(**changes)
    assert route.replay is not None
    assert ReplaySelection(route, route.replay).wants(event(4, **headers)) is wanted


def test_the_filter_of_the_trigger_counts_too() -> None:
    route = msgspec.structs.replace(replay_route(), attributes={"type": "odd"})
    assert route.replay is not None
    assert not ReplaySelection(route, route.replay).wants(event(4))
    assert ReplaySelection(route, route.replay).wants(event(5))


def test_a_subscriber_is_told_by_which_replay_an_event_comes() -> None:
    replayed = as_replayed(event(4, ce_knativebrokerttl="7"), replay_route("again"))
    assert replayed.event.attributes["penstockreplay"] == "again"
    assert b"ce-penstockreplay: again\r\n" in replayed.lines(with_ttl=False)
    assert replayed.event.attributes["knativebrokerttl"] == "7", "replies count on from it"


def test_the_past_that_a_trigger_asked_for_comes_as_it_was() -> None:
    past = as_replayed(event(4), replay_route("t-past", past_of="t"))
    assert past.event.attributes == event(4).event.attributes


@in_virtual_time
async def test_attempts_of_a_triggers_past_are_the_triggers() -> None:
    async with running(Stage(replay_route("t-past", end=2, past_of="t"))) as stage:
        await asyncio.sleep(2)
        await stage.node.answer(0, good=False)
        told = [one for unflushed in stage.node.dispatcher.unflushed.values() for one in unflushed.attempts]
        assert [(one.route, one.kind, one.name) for one in told] == [("t", "Trigger", "t-past")]


def test_a_sink_of_a_replay_sees_no_ttl() -> None:
    route = msgspec.structs.replace(replay_route(), subscriber=None, reply=Endpoint("http://sink/"))
    assert "knativebrokerttl" not in as_replayed(event(4, ce_knativebrokerttl="7"), route).event.attributes


def test_a_pace_lets_begin_what_its_rate_allows_and_saves_little() -> None:
    pace = ReplayPace(10.0, 0.0)
    begun = 0
    for tenth in range(1, 51):
        while pace.may(tenth / 10):
            pace.begun()
            begun += 1
    assert begun == pytest.approx(51, abs=1)
    burst = 0
    while pace.may(100.0):
        pace.begun()
        burst += 1
    assert burst == 2
    assert ReplayPace(None, 0.0).may(0.0)


def test_a_rate_is_shared_between_the_tasks() -> None:
    assert (share(100.0, 1, 4), share(None, 1, 4), share(10.0, 4, 4)) == (25.0, None, 10.0)


def attempt(origin: int, result: Result, **changes: object) -> AttemptRecord:
    record = AttemptRecord(
        10.0,
        "live",
        0,
        origin,
        "id",
        "s",
        "t",
        "subscriber",
        1,
        "http://s",
        result,
        0.1,
        500,
        None,
        "HTTP status 500",
    )
    return msgspec.structs.replace(record, **changes)


def test_what_was_given_up_is_found_in_the_attempts() -> None:
    attempts = [
        attempt(9, "dropped"),
        attempt(4, "deadletter"),
        attempt(4, "dropped", stage="deadletter"),
        attempt(5, "delivered"),
        attempt(6, "dropped", route="other"),
        attempt(7, "dropped", at=4.0),
        attempt(8, "dropped", reason="no connection"),
        attempt(3, "dropped", at=20.0),
    ]
    values = [*map(encode, attempts), b'"dropped" and broken', None]
    read = [found for value in values if (found := attempt_of(value)) is not None]
    assert [found.origin for found in read] == [9, 4, 4, 6, 7, 8, 3]
    replay = Replay("Trigger", since=5.0, until=15.0, given_up_by="live", reason="Status 5")
    assert failed_origins(read, replay) == [4, 9]
