"""What a dispatcher task tells of its routes: failures at once, numbers now and then, nothing twice."""

from __future__ import annotations

import asyncio

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.attempt import AttemptResult
from penstock.dispatcher.delivery.decision import DONE, Dropped, Retry, Verdict
from penstock.dispatcher.delivery.route_health import NUMBERS_SECONDS, ROUTES_PER_SECOND, TaskRouteHealth
from penstock.dispatcher.http.outcome import Outcome
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time

URL = "http://s/"
GOOD = AttemptResult(Verdict(Outcome.DELIVERED, 202), URL, 0.01)
BAD = AttemptResult(Verdict(Outcome.RETRYABLE, 503, reason="HTTP status 503"), URL, 0.01)
DEAF = AttemptResult(Verdict(Outcome.RETRYABLE, reason="no response within 5 s", cause=FailureCause.TIMEOUT), URL, 0.01)


class Told:
    """Standings with a memory of what was told."""

    def __init__(self) -> None:
        self.said: list[Standing] = []
        self.standings = TaskRouteHealth("one", self.said.append)

    def good(self, now: float, route: str = "r") -> None:
        self.standings.attempted(route, Stage.SUBSCRIBER, GOOD, DONE, now)

    def bad(self, now: float, route: str = "r", result: AttemptResult = BAD) -> None:
        self.standings.attempted(route, Stage.SUBSCRIBER, result, Retry(now + 2), now)

    def tick(self, now: float) -> list[Standing]:
        before = len(self.said)
        self.standings.report(now)
        return self.said[before:]


def test_a_run_of_failures_is_told_at_once_with_everything_that_is_known() -> None:
    one = Told()
    one.bad(100.0)
    one.bad(100.5)
    [told] = one.tick(101.0)
    assert (told.failures, told.since, told.failed, told.due) == (2, 100.0, 100.5, 102.5)
    assert (told.status, told.reason, told.url) == (503, "HTTP status 503", URL)
    assert one.tick(102.0) == []


def test_a_single_failure_counts_when_nothing_succeeds_after_it() -> None:
    one = Told()
    one.bad(100.0)
    assert one.tick(100.5)[0].failures == 0
    assert [told.failures for told in one.tick(101.5)] == [1]


def test_a_failure_that_is_over_at_once_is_not_told() -> None:
    one = Told()
    one.good(100.0)
    one.tick(100.1)
    one.bad(100.2)
    one.good(100.3)
    assert one.tick(101.1) == []


def test_the_end_of_a_run_is_told_at_once() -> None:
    one = Told()
    one.bad(100.0)
    one.bad(100.1)
    one.tick(101.0)
    one.good(101.2)
    [told] = one.tick(102.0)
    assert (told.failures, told.succeeded) == (0, 101.2)


def test_another_reason_is_told_at_once() -> None:
    one = Told()
    for at in (100.0, 100.1):
        one.bad(at)
    one.tick(101.0)
    one.bad(101.1, result=DEAF)
    [told] = one.tick(102.0)
    assert (told.status, told.reason, told.cause) == (None, "no response within 5 s", FailureCause.TIMEOUT)


def test_drops_and_dead_letters_are_counted_and_told_at_once() -> None:
    one = Told()
    one.standings.attempted("r", Stage.SUBSCRIBER, BAD, Dropped("503"), 100.0)
    one.standings.attempted("r", Stage.DEAD_LETTER, GOOD, DONE, 100.0)
    assert [(told.dropped, told.dead_lettered) for told in one.tick(100.1)] == [(1, 1)]
    one.standings.attempted("r", Stage.DEAD_LETTER, GOOD, DONE, 100.2)
    assert [told.dead_lettered for told in one.tick(101.0)] == [2]


def test_a_dead_letter_that_arrives_is_no_success_of_the_route() -> None:
    one = Told()
    for at in (100.0, 100.1):
        one.bad(at)
    one.standings.attempted("r", Stage.DEAD_LETTER, GOOD, DONE, 100.2)
    assert one.tick(101.0)[0].failures == 2


def test_numbers_are_told_every_few_seconds_and_only_if_they_are_others() -> None:
    one = Told()
    one.standings.measured("r", 5, 5, 99.0)
    assert [told.lag for told in one.tick(100.0)] == [5]
    one.standings.measured("r", 6, 6, 99.0)
    assert one.tick(101.0) == []
    assert [told.lag for told in one.tick(100.0 + NUMBERS_SECONDS)] == [6]
    one.standings.measured("r", 6, 6, 99.0)
    assert one.tick(120.0) == []


def test_with_many_routes_what_is_new_comes_first_and_every_route_has_its_turn() -> None:
    one = Told()
    routes = [f"r{number}" for number in range(ROUTES_PER_SECOND * 3)]
    for route in routes:
        one.standings.measured(route, 1, 1, 99.0)
    for at in (99.8, 99.9):
        one.bad(at, routes[-1])
    first = one.tick(100.0)
    assert len(first) == ROUTES_PER_SECOND
    assert first[0].route == routes[-1]
    later = [told for at in (101.0, 102.0, 103.0) for told in one.tick(at)]
    assert {told.route for told in first + later} == set(routes)


def test_a_route_that_is_gone_is_only_recalled_if_it_was_told_of() -> None:
    one = Told()
    one.good(100.0)
    assert one.standings.forget("r") is False
    one.good(100.0)
    one.tick(101.0)
    assert one.standings.forget("r") is True
    assert one.tick(102.0) == []


@in_virtual_time
async def test_the_dispatcher_tells_of_a_subscriber_that_fails_and_of_a_route_that_goes() -> None:
    route = Route(
        "r", "Trigger", "ns", "r", "b", subscriber=Endpoint(URL), delivery=Delivery(retry=5, backoff_delay=1.0)
    )
    node = Node({"r": route}, Topic({}, [Written(n, ("r",), 1_700_000_000_000) for n in range(3)]), Topic())
    await node.boot()
    for _ in range(3):
        await node.read_tail()
    for _ in range(3):
        await node.answer(0, good=False)
    node.dispatcher.each_second()
    told = node.reports.standings[-1]
    assert (told.route, told.failures, told.status, told.lag, told.outstanding) == ("r", 3, 503, 3, 3)
    await asyncio.sleep(1.5)
    await node.settle_requests()
    node.dispatcher.each_second()
    assert node.reports.standings[-1].failures == 0
    node.dispatcher.apply(Snapshot(2))
    assert node.reports.gone == ["r"]
    await node.halt()
