"""Subscribers that nobody answers for: how often they are tried, and what it costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.contract.attempts import FailureCause
from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding
from penstock.dispatcher.http.address import Origin
from penstock.dispatcher.http.connection import NoConnection, NoResponse, SubscriberConnection
from penstock.dispatcher.http.outcome import Withheld
from penstock.dispatcher.http.pool import REMEMBERED, SingleFlight
from penstock.dispatcher.lanes import ATTEMPTS_PER_SECOND, SHORT_REST_SECONDS, Job, Lane, Schedule, rounds

ORIGIN = Origin("127.0.0.1", 9, None, None)
URL = "http://127.0.0.1:9/"


@pytest.mark.parametrize("unreachable", [1, 2, 9, 10, 99, 100, 101, 1000, 5000, 100_000])
def test_all_unreachable_routes_together_stay_within_the_budget(unreachable: int) -> None:
    size, rest = rounds(unreachable)
    assert size >= 1
    assert rest >= SHORT_REST_SECONDS * 0.99
    assert unreachable * size / rest <= ATTEMPTS_PER_SECOND * 1.01


def test_few_unreachable_routes_use_most_of_the_budget() -> None:
    for unreachable in (1, 3, 10, 100):
        size, rest = rounds(unreachable)
        assert unreachable * size / rest >= ATTEMPTS_PER_SECOND * 0.9


def lane_with(schedule: Schedule, uid: str, count: int, limit: int = 100) -> Lane:
    lane = Lane(Route(uid, "Trigger", "ns", uid, "b", subscriber=Endpoint(URL)), limit)
    for origin in range(count):
        schedule.add(Job(lane, 0, Cursor(uid, 0, None, set()), Outstanding(origin, origin, 0)), 0)
    return lane


def start(schedule: Schedule) -> list[Job]:
    return list(iter(schedule.pop, None))


def fail(schedule: Schedule, jobs: list[Job], now: float) -> None:
    for job in jobs:
        schedule.landed(job)
        schedule.unreached(job.lane, now)


def test_an_unreachable_lane_rests_and_goes_on_with_a_few() -> None:
    schedule = Schedule(1000)
    lane = lane_with(schedule, "dead", 300)
    well = lane_with(schedule, "well", 300)
    first = start(schedule)
    assert len(first) == 200
    fail(schedule, [job for job in first if job.lane is lane], 5.0)
    size, rest = rounds(1)
    assert start(schedule) == []
    assert schedule.next_due == 5.0 + rest
    schedule.due(5.0 + rest)
    again = start(schedule)
    assert [job.lane for job in again] == [lane] * size
    fail(schedule, again, 6.0)
    schedule.due(5.9)
    assert start(schedule) == []
    for job in first:
        if job.lane is well:
            schedule.landed(job)
    assert {job.lane for job in start(schedule)} == {well}


def test_a_lane_that_reaches_somebody_is_as_before() -> None:
    schedule = Schedule(1000)
    lane = lane_with(schedule, "l", 300)
    fail(schedule, start(schedule), 5.0)
    schedule.due(6.0)
    trial = start(schedule)
    schedule.landed(trial[0])
    schedule.reached(lane)
    assert not lane.unreachable
    assert len(start(schedule)) == 100 - len(trial) + 1


def test_a_route_that_is_removed_while_it_rests_leaves_nothing() -> None:
    schedule = Schedule(1000)
    lane, other = lane_with(schedule, "gone", 300), lane_with(schedule, "other", 300)
    fail(schedule, start(schedule), 5.0)
    assert len(schedule.close(lane)) == 200
    schedule.due(10.0)
    assert {job.lane for job in start(schedule)} == {other}
    fail(schedule, start(schedule), 10.0)
    assert schedule.next_due is None or schedule.next_due <= 10.0 + rounds(1)[1]


class Door:
    """Counts who tries, and answers when the test says so."""

    def __init__(self) -> None:
        self.tried: list[asyncio.Future[SubscriberConnection]] = []

    async def connect(self, _: Origin, __: float) -> SubscriberConnection:
        answer: asyncio.Future[SubscriberConnection] = asyncio.get_running_loop().create_future()
        self.tried.append(answer)
        return await answer

    async def refuse(self) -> None:
        for answer in self.tried:
            if not answer.done():
                answer.set_exception(NoConnection("nobody there", FailureCause.CONNECTION_REFUSED))
        await turns()


async def turns() -> None:
    """Lets everybody go on as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def settle(*calls: Awaitable[object]) -> list[object]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def deserted(door: Door) -> SingleFlight:
    """A single_flight that knows nobody is there."""
    single_flight = SingleFlight(door.connect)
    first = asyncio.create_task(settle(single_flight.connect(ORIGIN, 5)))
    await turns()
    await door.refuse()
    assert isinstance((await first)[0], NoConnection)
    door.tried.clear()
    return single_flight


async def many(
    single_flight: SingleFlight, count: int, seconds: float = 5
) -> Callable[[], Awaitable[Sequence[object]]]:
    waiting = asyncio.gather(*(single_flight.connect(ORIGIN, seconds) for _ in range(count)), return_exceptions=True)
    await turns()

    async def outcome() -> Sequence[object]:
        return await waiting

    return outcome


async def test_everybody_connects_where_nothing_is_known() -> None:
    door = Door()
    outcome = await many(SingleFlight(door.connect), 5)
    assert len(door.tried) == 5
    await door.refuse()
    assert [str(problem) for problem in await outcome()] == ["nobody there"] * 5


async def test_one_looks_for_all_where_nobody_was() -> None:
    door = Door()
    single_flight = await deserted(door)
    outcome = await many(single_flight, 5)
    assert len(door.tried) == 1
    await door.refuse()
    for problem in await outcome():
        assert isinstance(problem, NoConnection)
        assert (str(problem), problem.cause) == ("nobody there", FailureCause.CONNECTION_REFUSED)
    later = await many(single_flight, 1)
    assert len(door.tried) == 2, "who comes later looks again"
    await door.refuse()
    await later()


async def test_all_connect_when_somebody_is_there_again() -> None:
    door = Door()
    single_flight = await deserted(door)
    outcome = await many(single_flight, 5)
    made = SubscriberConnection(lambda _: None, 0)
    door.tried[0].set_result(made)
    await turns()
    assert len(door.tried) == 5
    for answer in door.tried[1:]:
        answer.set_result(made)
    assert await outcome() == [made] * 5


async def test_who_looks_and_does_not_find_out_leaves_it_to_the_next() -> None:
    door = Door()
    single_flight = await deserted(door)
    outcome = await many(single_flight, 3)
    door.tried[0].set_exception(NoResponse("too slow"))
    await turns()
    assert len(door.tried) == 2
    await door.refuse()
    told = [str(problem) for problem in await outcome()]
    assert told == ["too slow", "nobody there", "nobody there"]


async def test_what_keeps_one_from_looking_keeps_all_who_wait() -> None:
    door = Door()
    single_flight = await deserted(door)
    outcome = await many(single_flight, 3)
    door.tried[0].set_exception(Withheld("DNS is away", FailureCause.DNS_UNAVAILABLE))
    await turns()
    problems = await outcome()
    assert len(door.tried) == 1
    assert [(str(problem), problem.cause) for problem in problems if isinstance(problem, Withheld)] == [
        ("DNS is away", FailureCause.DNS_UNAVAILABLE)
    ] * 3


async def test_who_looks_and_is_cancelled_leaves_it_to_the_next() -> None:
    door = Door()
    single_flight = await deserted(door)
    looking = asyncio.create_task(single_flight.connect(ORIGIN, 5))
    await turns()
    outcome = await many(single_flight, 2)
    looking.cancel()
    await turns()
    assert len(door.tried) == 2
    await door.refuse()
    assert {str(problem) for problem in await outcome()} == {"nobody there"}


async def test_who_waits_for_another_keeps_its_own_time_limit() -> None:
    door = Door()
    single_flight = await deserted(door)
    looking = asyncio.create_task(single_flight.connect(ORIGIN, 5))
    await turns()
    with pytest.raises(NoResponse, match=r"no connection to 127\.0\.0\.1:9 within 0\.01 s") as problem:
        await single_flight.connect(ORIGIN, 0.01)
    assert not isinstance(problem.value, NoConnection)
    await door.refuse()
    await settle(looking)


async def test_deserted_origins_are_not_remembered_without_end() -> None:
    door = Door()
    single_flight = SingleFlight(door.connect)
    for port in range(REMEMBERED + 10):
        trying = asyncio.create_task(settle(single_flight.connect(Origin("h", port, None, None), 5)))
        await turns()
        await door.refuse()
        await trying
        door.tried.clear()
    assert len(single_flight._unreachable) == REMEMBERED
