"""Routes that read on their own over many generations of the router: what was shut out stays so, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from dispatcher_double import Node, Topic, Written
from virtual_time import run

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Cursor
from penstock.dispatcher.cursors.partition import PartitionCursors
from penstock.dispatcher.matched_record import Matched

GENERATIONS, EACH = 40, 3
LIMITS = {"catch_up_records": 7}
ROUTE = Route("r", "Trigger", "ns", "r", "broker", subscriber=Endpoint("http://s/"), delivery=Delivery(retry=3))


def log_of(late: int, after: int, routes: tuple[str, ...] = ("r",)) -> list[Written]:
    """Forty generations with their fences; so many records after the second fence the first writes once more, far
    ahead."""
    matched: list[Written] = []
    for generation in range(1, GENERATIONS + 1):
        begin = (generation - 1) * EACH
        matched.append(Written(begin - 1, (), len(matched), generation, fence=True))
        matched += [Written(begin + number, routes, len(matched) + number, generation) for number in range(EACH)]
    matched.insert(EACH + 2 + after, Written(late, routes, len(matched), 1))
    return matched


async def read_all(node: Node) -> None:
    while node.position < len(node.matched.records):
        await node.read_tail()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("paused_after", "late_after"), [(0, 0), (2, 0), (5, 1), (6, 2)])
def test_a_route_paused_over_forty_generations_gets_every_event(
    paused_after: int, late_after: int, *, restarts: bool
) -> None:
    """It is paused before a fence is read, or right behind the one that shuts a late record out."""

    async def story() -> None:
        count = GENERATIONS * EACH
        events = [Written(origin, (), origin) for origin in range(count)]
        node = Node({"r": ROUTE}, Topic({}, log_of(count // 2, late_after)), Topic({}, events), LIMITS)
        await node.boot()
        for _ in range(paused_after):
            await node.read_tail()
        await node.settle_requests()
        node.routes["r"] = msgspec.structs.replace(ROUTE, paused=True)
        node.dispatcher.apply(node.snapshot(2))
        await read_all(node)
        if restarts:
            node.flush()
            await node.crash()
        node.routes["r"] = ROUTE
        node.dispatcher.apply(node.snapshot(3))
        await node.settle()
        assert sorted({event for _, event in node.seen}) == list(range(count))
        await node.halt()

    run(story())


def test_a_route_that_reads_from_the_beginning_minds_the_fences_that_others_know() -> None:
    """Its cursor could not be read, and it stands beside a route that knows which fence is in force there."""
    routes = {uid: msgspec.structs.replace(ROUTE, uid=uid) for uid in "rs"}
    log = log_of(GENERATIONS * EACH // 2, 2, ("s", "r"))

    def matched(offset: int) -> Matched:
        record = Topic({}, log).at(offset)
        assert record is not None
        return record

    partition = PartitionCursors(0, len(log))
    known, unknown = (Cursor(uid, EACH + 1, EACH + 3, partition.changed) for uid in "rs")
    known.pass_fence(2)
    partition.restore(None, [known, unknown])
    begun = partition.catch_up(
        EACH + 3,
        EACH + 5,
        [matched(EACH + 3), matched(EACH + 4)],
        routes,
        has_capacity=always,
        has_capacity_for_chunk=always,
    )
    assert sorted((new.cursor.route, new.delivery.origin) for new in begun) == [("r", EACH + 1), ("s", EACH + 1)]


def always(_: Cursor) -> bool:
    return True


def test_a_fence_that_retention_removed_unread_still_shuts_out() -> None:
    """The simulation found it: the dispatcher did not read while a generation followed another one and retention
    removed the fence. What a task of the former one writes then counts, and the events that it is ahead are skipped."""

    async def story() -> None:
        first = [Written(-1, (), 0, 1, fence=True), *(Written(origin, ("r",), origin, 1) for origin in range(5))]
        second = [Written(4, (), 5, 2, fence=True), *(Written(origin, ("r",), origin, 2) for origin in (5, 6))]
        events = Topic({}, [Written(origin, ("r",), origin) for origin in range(7)])
        node = Node({"r": ROUTE}, Topic({}, [*first, *second]), events, LIMITS)
        await node.boot()
        for _ in range(3):
            await node.read_tail()
        node.matched.first = len(first) + 2
        await node.settle()
        assert sorted(event for _, event in node.seen) == list(range(7))
        events.records += [Written(origin, ("r",), origin) for origin in range(7, 10)]
        late = Written(9, ("r",), 9, 1)
        node.matched.records += [late, *(Written(origin, ("r",), origin, 2) for origin in range(7, 10))]
        await node.settle()
        assert sorted(event for _, event in node.seen) == list(range(10))
        await node.halt()

    run(story())
