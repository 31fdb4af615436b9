"""Numbers: one look serves all pages, nobody looks while no page is open, and a quarter of an hour is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from penstock.console.live import _numbers
from penstock.console.numbers import KEPT_SECONDS, POINT_SECONDS, Frame, Numbers, Past
from penstock.operations.metrics_client import Counted
from penstock.operations.route_rates import Counters, RouteName, RouteRow, TargetName
from penstock.runtime.errors import UserError

ROUTE = RouteName("Trigger", "default", "orders")


class Looking:
    """Counts how often the metrics were looked at; each time ten events more were delivered."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Counted:
        self.times += 1
        done = 10.0 * self.times
        return Counted({ROUTE: Counters(succeeded=done, lag=3)}, {TargetName("Broker", "default", "b"): done})


def row(rate: float, lag: int = 0) -> RouteRow:
    return RouteRow(ROUTE, rate, 0.0, None, None, lag, 0, 0.0, 0, False)


class Clock:
    """Each time it is asked a second and a half have passed, so that nobody has to wait long."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.5
        return self.now


async def test_nobody_looks_before_a_page_is_open_and_pages_share_a_look() -> None:
    look, stopping = Looking(), asyncio.Event()
    numbers = Numbers(look, stopping, clock=lambda: 50.0)
    assert look.times == 0
    frames = await asyncio.gather(*(numbers.after(0) for _ in range(5)))
    assert look.times == 1
    assert {frame.number for frame in frames} == {1}
    stopping.set()


async def test_what_happens_between_two_looks_is_a_rate() -> None:
    look = Looking()
    numbers = Numbers(look, asyncio.Event(), clock=Clock())
    first = await numbers.after(0)
    assert first.rows[ROUTE].rate == 0, "one look alone says nothing of a rate"
    numbers._due = 0.0
    second = await numbers.after(first.number)
    assert second.rows[ROUTE].rate > 0
    assert second.targets[TargetName("Broker", "default", "b")].rate > 0
    assert second.rows[ROUTE].lag == 3


async def test_metrics_that_cannot_be_read_are_a_problem_and_no_end() -> None:
    def broken() -> Counted:
        raise UserError("The metrics at x cannot be read.")

    frame = await Numbers(broken, asyncio.Event()).after(0)
    assert frame.problem == "The metrics at x cannot be read."
    off = await Numbers(None, asyncio.Event()).after(0)
    assert "Metrics are off" in (off.problem or "")


async def test_a_page_gets_everything_once_and_then_what_changed() -> None:
    frames = [
        Frame(1, 1.0, {ROUTE: row(1.0)}),
        Frame(2, 2.0, {ROUTE: row(1.0)}),
        Frame(3, 3.0, {ROUTE: row(2.0)}),
        Frame(4, 4.0, {}),
    ]

    async def all_frames() -> AsyncIterator[Frame]:
        for frame in frames:
            yield frame

    said = [message async for message in _numbers(all_frames())]
    assert said[0] == b"retry: 3000\n\n"
    told = [msgspec.json.decode(message.removeprefix(b"data: ")) for message in said[1:]]
    key = "Trigger/default/orders"
    assert [sorted(one["changed"]) for one in told] == [[key], [], [key], []]
    assert told[3]["gone"] == [key]


def test_a_quarter_of_an_hour_is_remembered_of_routes_at_work() -> None:
    past = Past()
    past.add(Frame(1, 1000.0, {ROUTE: row(0.0)}))
    assert past.of(ROUTE) == [], "it did nothing"
    for number in range(400):
        past.add(Frame(number, 1000.0 + (number + 1) * POINT_SECONDS, {ROUTE: row(5.0, lag=number)}))
    points = past.of(ROUTE)
    assert points[-1][0] - points[0][0] <= KEPT_SECONDS
    assert points[-1][1] == 5.0
    past.add(Frame(500, 9000.0, {}))
    assert past.of(ROUTE) == [], "the route is gone"
