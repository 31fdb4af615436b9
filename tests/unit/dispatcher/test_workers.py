"""Tasks that deliver: used again while there is work, gone when there is none, and none of it loses a delivery."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec
import pytest
import structlog.testing
import uvloop

from penstock.contract import records as headers
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.decision import Verdict
from penstock.dispatcher.dispatcher import Dispatcher
from penstock.dispatcher.http.outcome import Outcome
from penstock.dispatcher.lanes import rounds
from penstock.dispatcher.matched_record import OVERHEAD_BYTES, Matched
from penstock.kafka.reports import Reporter
from penstock.observability.instruments import REGISTRY, write_metrics
from penstock.observability.metrics import DATA_UNREAD
from penstock.settings import Settings
from tests.unit.dispatcher.dispatcher_double import Topic
from tests.unit.dispatcher.secrets_double import Kubernetes
from tests.unit.dispatcher.virtual_time import in_virtual_time

ROUTE = Route("r", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/"))


class Asked:
    """A sender whose answers the test gives."""

    names = None

    def __init__(self) -> None:
        self.origins: list[int] = []
        self.failures: list[BaseException] = []
        self.answers: list[asyncio.Future[AttemptResult]] = []

    def routed(self, record: Matched, targets: object) -> None:
        """Nobody traces."""

    async def attempt(self, _: Route, __: object, record: Matched, ___: object) -> AttemptResult:
        answer: asyncio.Future[AttemptResult] = asyncio.get_running_loop().create_future()
        self.origins.append(record.origin)
        self.answers.append(answer)
        return await answer

    async def answer(
        self, outcome: Outcome = Outcome.DELIVERED, *, unreached: bool = False, discarded: bool = False
    ) -> None:
        answers, self.answers = self.answers, []
        for answer in answers:
            verdict = Verdict(outcome, 202)
            result = AttemptResult(verdict, "http://s/", 0.0, discarded=discarded, unreached=unreached)
            answer.set_result(result)
        for _ in range(5):
            await asyncio.sleep(0)


class Silent:
    instance = "dispatcher-0"

    def ack(self, version: int) -> None:
        """Nobody listens."""

    def standing(self, standing: object) -> None:
        """Nobody listens."""


async def no_generation() -> int:
    return 0


def dispatcher(asked: Asked, **changes: int) -> Dispatcher:
    made = Dispatcher(
        Settings(**changes),  # type: ignore[arg-type]  # limits, all of them numbers
        [0],
        cast("AttemptSender", asked),
        cast("Reporter", Silent()),
        matched=Topic(),
        events=Topic(),
        secrets=Kubernetes().kept(),
        live_generation=no_generation,
        failed=asked.failures.append,
    )
    made.apply(Snapshot(version=1, routes={ROUTE.uid: ROUTE}))
    return made


def records(begin: int, end: int) -> list[Matched]:
    return [Matched(0, n, 0, n, routes=(ROUTE.uid,), raw=[], value=b"") for n in range(begin, end)]


def tasks() -> int:
    return len(asyncio.all_tasks()) - 1


async def test_a_worker_is_used_again_and_ends_when_nothing_comes() -> None:
    asked = Asked()
    made = dispatcher(asked)
    for origin in range(20):
        made.take(records(origin, origin + 1))
        await asyncio.sleep(0)
        await asked.answer()
    assert asked.origins == list(range(20))
    assert (made.outstanding, tasks()) == (0, 1)
    made.each_second()
    await asyncio.sleep(0)
    assert tasks() == 0


async def test_events_without_the_json_data_that_a_filter_asks_for_are_counted() -> None:
    def counted() -> float:
        write_metrics()
        return REGISTRY.get_sample_value(DATA_UNREAD.name) or 0

    before = counted()
    unread = [(headers.DATA_UNREAD, b"1")]
    dispatcher(Asked()).take([Matched(0, n, 0, n, routes=(), raw=unread if n else [], value=None) for n in range(3)])
    assert counted() == before + 2


async def test_what_waits_for_room_is_taken_up_by_whoever_is_free() -> None:
    asked = Asked()
    made = dispatcher(asked, max_in_flight=3)
    made.take(records(0, 10))
    await asyncio.sleep(0)
    assert (asked.origins, tasks()) == ([0, 1, 2], 3)
    while made.outstanding:
        await asked.answer()
    assert (asked.origins, tasks()) == (list(range(10)), 3)
    made.take(records(10, 12))
    await asyncio.sleep(0)
    made.each_second()  # dismisses the one that is idle, not those at work
    await asyncio.sleep(0)
    assert tasks() == 2
    await asked.answer()
    assert (made.outstanding, asked.origins[-2:]) == (0, [10, 11])


async def test_a_route_that_is_a_little_behind_reads_nothing_again() -> None:
    asked = Asked()
    made = dispatcher(asked, max_outstanding=4, catch_up_records=2)  # without anything to read from
    made.take(records(0, 20))
    assert not made.partitions[0].cursors[ROUTE.uid].attached
    catching_up = asyncio.create_task(made.catch_up())
    for _ in range(20):
        await asyncio.sleep(0)
        await asked.answer()
        assert not catching_up.done()
    assert (asked.origins, made.outstanding) == (list(range(20)), 0)
    assert made.partitions[0].cursors[ROUTE.uid].attached
    catching_up.cancel()
    await asyncio.gather(catching_up, return_exceptions=True)


async def test_what_is_kept_for_routes_behind_is_bounded_and_let_go() -> None:
    made = dispatcher(Asked(), max_outstanding=4, delivery_memory_mib=1)
    made.take(records(0, 2000))
    recent, limit = made.recent[0], 2**20 // 4
    kept = recent.chunk(1999, 2000)
    assert kept is not None
    assert [record.offset for record in kept.records] == [1999]
    assert recent.chunk(1999 - limit // OVERHEAD_BYTES, 2000) is None
    made.apply(Snapshot(version=2))  # the route is gone, and nobody else is behind
    made.each_second()
    assert recent.chunk(1999, 2000) is None


async def test_draining_waits_for_requests_and_starts_nothing() -> None:
    asked = Asked()
    made = dispatcher(asked, max_in_flight=2)
    made.take(records(0, 5))
    await asyncio.sleep(0)
    draining = asyncio.create_task(made.drain(5))
    await asyncio.sleep(0)
    await asked.answer()
    await draining
    assert (asked.origins, made.outstanding, tasks()) == ([0, 1], 3, 0)


async def test_draining_ends_what_does_not_end_by_itself() -> None:
    asked = Asked()
    made = dispatcher(asked)
    made.take(records(0, 2))
    await asyncio.sleep(0)
    await made.drain(0.001)
    assert (made.outstanding, tasks()) == (2, 0)


def test_a_retry_that_is_due_at_once_is_made() -> None:
    """uvloop makes a plain handle of a call that is due within its millisecond; it has no time to ask for."""
    policy = Delivery(retry=1000, backoff_policy="exponential", backoff_delay=1e-7)
    eager = msgspec.structs.replace(ROUTE, delivery=policy)

    problems: list[str] = []

    async def retry_often() -> tuple[int, int]:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: problems.append(str(told)))
        asked = Asked()
        made = dispatcher(asked)
        made.apply(Snapshot(version=2, routes={ROUTE.uid: eager}))
        made.take(records(0, 50))
        for _ in range(10):
            await asked.answer(Outcome.RETRYABLE)
            await asyncio.sleep(0.001)
        while made.outstanding:
            await asked.answer()
            await asyncio.sleep(0.001)
        return len(asked.origins), made.outstanding

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        attempts, left = runner.run(retry_often())
    assert (problems, left) == ([], 0)
    assert attempts >= 300


@in_virtual_time
async def test_a_route_nobody_answers_for_is_tried_in_rounds_until_somebody_does() -> None:
    asked = Asked()
    made = dispatcher(asked)
    made.apply(Snapshot(version=2, routes={ROUTE.uid: msgspec.structs.replace(ROUTE, delivery=Delivery(retry=1000))}))
    made.take(records(0, 200))
    await asyncio.sleep(0)
    assert len(asked.answers) == 100
    await asked.answer(Outcome.RETRYABLE, unreached=True)
    assert asked.answers == [], "it rests"
    size, rest = rounds(1)
    await asyncio.sleep(rest * 0.9)
    assert asked.answers == []
    await asyncio.sleep(rest * 0.2)
    assert len(asked.answers) == size
    await asked.answer()
    assert len(asked.answers) == 100
    while made.outstanding:
        await asked.answer()
    assert set(asked.origins) == set(range(200))


@in_virtual_time
async def test_an_unused_body_is_logged_once_a_minute_and_route() -> None:
    asked = Asked()
    made = dispatcher(asked)
    with structlog.testing.capture_logs() as lines:
        for origin in range(130):
            made.take(records(origin, origin + 1))
            await asyncio.sleep(1)
            await asked.answer(discarded=True)
    assert len(lines) == 3
    assert {line["name"] for line in lines} == {"t"}


def _broken(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


async def test_a_schedule_that_breaks_when_something_comes_due_ends_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    made = dispatcher(asked)
    monkeypatch.setattr(made.schedule, "due", _broken)
    made._workers._run_due()
    assert [type(error) for error in asked.failures] == [ZeroDivisionError]


async def test_a_schedule_that_breaks_under_a_worker_ends_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    made = dispatcher(asked)
    made.take(records(0, 1))
    await asyncio.sleep(0)
    monkeypatch.setattr(made.schedule, "pop", _broken)
    await asked.answer()
    assert [type(error) for error in asked.failures] == [ZeroDivisionError]
    await made.drain(0)
