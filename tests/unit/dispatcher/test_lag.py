"""How far a route is behind: in events, against what Kafka has, whether it is paused or nothing is read any more."""

from __future__ import annotations

import msgspec

from penstock.contract.routes import Endpoint, Route
from penstock.observability.instruments import write_metrics
from penstock.observability.metrics import LAG
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time

SLOW = Route("slow", "Trigger", "lag", "slow", "b", subscriber=Endpoint("http://s/"))
PAUSED = Route("paused", "Trigger", "lag", "paused", "b", subscriber=Endpoint("http://s/"), paused=True)
QUIET = Route("quiet", "Trigger", "lag", "quiet", "b", subscriber=Endpoint("http://s/"))

MARKER = Written(9, (), 9)
LOG = [
    Written(0, ("slow", "paused"), 0),
    Written(1, ("slow",), 1),
    Written(2, ("slow", "paused"), 2),
    Written(1, ("slow",), 3),  # a generation that overlaps repeats itself
    Written(2, ("slow", "paused"), 4),
    Written(3, ("slow", "paused"), 5),
    *[MARKER] * 20,
    Written(10, ("slow",), 6),
]


def node() -> Node:
    LAG.metric.clear()
    routes = {route.uid: route for route in (SLOW, PAUSED, QUIET)}
    return Node(routes, Topic({}, list(LOG)), Topic(), {"max_outstanding": 2})


def lag(one: Node, route: Route) -> float:
    one.dispatcher.each_second()
    write_metrics()
    return float(LAG.metric.labels(route.kind, route.namespace, route.name)._value.get())


async def read_all(one: Node) -> None:
    while one.position < len(one.matched.records):
        await one.read_tail()


@in_virtual_time
async def test_events_are_counted_and_neither_repeats_nor_markers() -> None:
    one = node()
    await one.boot()
    await read_all(one)
    one.dispatcher.ends = {0: len(LOG)}
    assert lag(one, SLOW) == 5
    assert lag(one, PAUSED) == 3
    assert lag(one, QUIET) == 0
    one.flush()
    await one.crash()
    assert (lag(one, SLOW), lag(one, PAUSED)) == (5, 3)
    await one.settle()
    assert (lag(one, SLOW), lag(one, PAUSED)) == (0, 3)
    await one.halt()


@in_virtual_time
async def test_what_a_paused_route_missed_is_written_down_now_and_then() -> None:
    one = node()
    await one.boot()
    await one.read_tail()
    one.flush()
    await read_all(one)
    one.dispatcher.each_second()
    one.flush()
    assert msgspec.json.decode(one.table()["paused/0"])["behind"] == 3
    await one.halt()


@in_virtual_time
async def test_a_reader_that_stands_still_leaves_every_route_behind() -> None:
    one = node()
    await one.boot()
    for _ in range(2):
        await one.read_tail()
    await one.settle_requests()
    one.dispatcher.ends = {0: 2}
    assert [lag(one, route) for route in (SLOW, QUIET)] == [0, 0]
    one.dispatcher.ends = {0: 27}  # Kafka has more, and nothing is read
    assert [lag(one, route) for route in (SLOW, PAUSED, QUIET)] == [25, 26, 25]
    await read_all(one)
    assert lag(one, QUIET) == 0
    await one.halt()
