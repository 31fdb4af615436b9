"""Retries that wait over a restart, where the clock on the wall was set meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from penstock.contract.routes import Delivery, Endpoint, Route
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time, turns

DAY = 24 * 3600.0
POLICY = Delivery(retry=5, backoff_policy="exponential", backoff_delay=60.0)
ROUTE = Route("r", "Trigger", "ns", "r", "b", subscriber=Endpoint("http://s/"), delivery=POLICY)


async def failed_once() -> Node:
    """A task with a delivery whose second attempt is due in a minute."""
    node = Node({"r": ROUTE}, Topic({}, [Written(0, ("r",), 0)]), Topic({}, [Written(0, ("r",), 0)]))
    await node.boot()
    await node.read_tail()
    await node.answer(0, good=False)
    node.flush()
    assert node.seen == [("r", 0)]
    return node


@pytest.mark.parametrize("days", [0.0, 1.0, 365.0])
def test_a_retry_waits_no_longer_than_its_policy_says_where_the_clock_was_set_back(days: float) -> None:
    @in_virtual_time
    async def story() -> None:
        node = await failed_once()
        node.wall -= days * DAY
        await node.crash()
        await asyncio.sleep(59)
        assert node.seen == [("r", 0)]
        await asyncio.sleep(2)
        await turns()
        assert node.seen == [("r", 0)] * 2
        await node.halt()

    story()


@in_virtual_time
async def test_what_is_left_of_a_wait_is_waited_after_a_restart_and_a_clock_set_forward_ends_it() -> None:
    node = await failed_once()
    await asyncio.sleep(40)
    await node.crash()
    await asyncio.sleep(19)
    assert node.seen == [("r", 0)]
    await asyncio.sleep(2)
    assert node.seen == [("r", 0)] * 2
    await node.answer(0, good=False)
    node.flush()
    node.wall += DAY
    await node.crash()
    await turns()
    assert node.seen == [("r", 0)] * 3
    await node.halt()
