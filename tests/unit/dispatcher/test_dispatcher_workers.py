"""Tasks that deliver: used again while there is work, gone when there is none, and none of it loses a delivery."""

from __future__ import annotations

import asyncio
from typing import cast

from penstock.contract.reporter import Reporter
from penstock.contract.routes import Endpoint, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.attempt import Report, Sender
from penstock.dispatcher.classify import Outcome
from penstock.dispatcher.decision import Verdict
from penstock.dispatcher.dispatch import Dispatcher
from penstock.dispatcher.matched import Matched
from penstock.dispatcher.reread import RereadReader
from penstock.settings import Settings

ROUTE = Route("r", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/"))


class Asked:
    """A sender whose answers the test gives."""

    names = None

    def __init__(self) -> None:
        self.origins: list[int] = []
        self.answers: list[asyncio.Future[Report]] = []

    def routed(self, record: Matched, targets: object) -> None:
        """Nobody traces."""

    async def attempt(self, _: Route, __: object, record: Matched, ___: object) -> Report:
        answer: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self.origins.append(record.origin)
        self.answers.append(answer)
        return await answer

    async def answer(self) -> None:
        for answer in self.answers:
            answer.set_result(Report(Verdict(Outcome.DELIVERED, 202), "http://s/", 0.0))
        self.answers = []
        for _ in range(5):
            await asyncio.sleep(0)


class Silent:
    def ack(self, version: int) -> None:
        """Nobody listens."""


def dispatcher(asked: Asked, **changes: int) -> Dispatcher:
    made = Dispatcher(
        Settings(**changes),  # type: ignore[arg-type]  # limits, all of them numbers
        [0],
        cast("Sender", asked),
        cast("RereadReader", None),
        cast("Reporter", Silent()),
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
    made.keep_house()
    await asyncio.sleep(0)
    assert tasks() == 0


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
    made.keep_house()  # dismisses the one that is idle, not those at work
    await asyncio.sleep(0)
    assert tasks() == 2
    await asked.answer()
    assert (made.outstanding, asked.origins[-2:]) == (0, [10, 11])


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
