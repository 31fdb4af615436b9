"""Routes come, go, and cannot be read: what a task that starts makes of the cursors it finds."""

from __future__ import annotations

import asyncio

import pytest

from penstock.contract.routes import Endpoint, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher.dispatcher import UNKNOWN_SECONDS
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time, turns

ROUTE = Route("r", "Trigger", "ns", "r", "broker", subscriber=Endpoint("http://s/"))
OTHER = Route("o", "Trigger", "ns", "o", "broker", subscriber=Endpoint("http://o/"))
COUNT = 4


async def restarted(node: Node, before: Snapshot) -> None:
    """A task took everything that is matched, had one of it delivered and wrote its cursors; the next one starts."""
    await node.boot()
    while node.position < COUNT:
        await node.read_tail()
    await node.answer(0, good=True)
    node.flush()
    await node.halt()
    node.seen.clear()
    node.given = before
    await node.boot()
    await turns()


@pytest.fixture
def node() -> Node:
    written = [Written(origin, ("r",), origin) for origin in range(COUNT)]
    return Node({"r": ROUTE}, Topic(records=written), Topic(records=list(written)))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(Snapshot(1, unreadable=frozenset({"r"})), id="its record cannot be read"),
        pytest.param(Snapshot(1, missing=1), id="a route is missing"),
        pytest.param(Snapshot(), id="nothing can be read"),
    ],
)
@in_virtual_time
async def test_cursors_outlast_a_record_that_cannot_be_read(node: Node, before: Snapshot) -> None:
    await restarted(node, before)
    assert node.seen == []
    node.dispatcher.apply(Snapshot(2, routes={"r": ROUTE}))
    await node.settle()
    assert sorted(node.seen) == [("r", 1), ("r", 2), ("r", 3)]
    assert node.dispatcher.outstanding == 0
    await node.halt()


@in_virtual_time
async def test_a_route_that_records_name_is_waited_for_as_long_as_its_own_cannot_be_read(node: Node) -> None:
    await restarted(node, Snapshot(1, unreadable=frozenset({"r"})))
    node.matched.records.append(Written(COUNT, ("r",), COUNT))
    await node.read_tail()
    await asyncio.sleep(UNKNOWN_SECONDS + 1)
    node.dispatcher.each_second()
    node.dispatcher.apply(Snapshot(2, routes={"r": ROUTE}))
    await node.settle()
    assert sorted(node.seen) == [("r", 1), ("r", 2), ("r", 3), ("r", 4)]
    await node.halt()


@in_virtual_time
async def test_cursors_go_when_the_route_is_found_to_be_gone(node: Node) -> None:
    await restarted(node, Snapshot(1, unreadable=frozenset({"r"})))
    node.dispatcher.apply(Snapshot(2))
    node.flush()
    assert (set(node.table()), node.dispatcher.outstanding) == ({"tail/0"}, 0)
    await node.halt()


@in_virtual_time
async def test_the_newest_snapshot_counts_whatever_its_number(node: Node) -> None:
    """The order of the topic decides. A number falls when a control plane could not read which one was last."""
    await node.boot()
    node.dispatcher.apply(Snapshot(9, routes={"r": ROUTE}))
    node.dispatcher.apply(Snapshot(3, routes={"o": OTHER}))
    assert node.dispatcher.lanes.keys() == {"o"}
    await node.halt()
