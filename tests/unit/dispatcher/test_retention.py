"""Which routes are warned that retention will soon remove what waits for them."""

from __future__ import annotations

import math

import pytest

from penstock.contract.routes import Endpoint, Replay, Route
from penstock.dispatcher.cursors.cursor import Counts
from penstock.dispatcher.delivery.retention import (
    RATE_SECONDS,
    USUAL_BYTES,
    EventRate,
    Forecast,
    RetentionLimits,
    bytes_of,
    horizon,
    limits_of,
)
from penstock.dispatcher.matched_record import of_event
from penstock.history.reader.table_events import Stretch
from penstock.observability.instruments import write_metrics
from penstock.observability.metrics import EXPIRING, OLDEST
from tests.unit.dispatcher.dispatcher_double import WALL, Node, Topic, Written
from tests.unit.dispatcher.virtual_time import in_virtual_time

WEEK, KIB = 7 * 24 * 3600.0, 1024.0
LARGE = RetentionLimits(WEEK, 1000 * KIB)
"""Room for a thousand events of a KiB."""


def test_limits_are_those_of_the_topic() -> None:
    assert limits_of({"retention.ms": "3600000", "retention.bytes": "1024"}) == RetentionLimits(3600.0, 1024.0)
    assert limits_of({"retention.ms": "-1", "retention.bytes": "-1"}) == RetentionLimits(math.inf, math.inf)
    assert LARGE.soon_seconds == 3600.0
    assert RetentionLimits(3600.0, 1.0).soon_seconds == 1800.0, "half of what is kept, where that is less"


@pytest.mark.parametrize(
    ("end", "aged", "rate", "expected"),
    [
        pytest.param(900, 0, 0.0, 0, id="all of it fits, and nothing more comes"),
        pytest.param(900, 70, 0.0, 70, id="some is too old"),
        pytest.param(900, 0, 0.1, 260, id="360 more come in an hour"),
        pytest.param(1100, 150, 0.1, 460, id="the larger of both"),
        pytest.param(900, 0, 10.0, 400, id="what comes would fill it many times: the older half"),
        pytest.param(5000, 0, 0.0, 4000, id="retention is late: Kafka removes whole files"),
        pytest.param(300, 900, 0.0, 300, id="nothing is removed that is not there"),
    ],
)
def test_what_is_removed_soon_follows_from_age_and_room(end: int, aged: int, rate: float, expected: int) -> None:
    assert horizon(0, end, aged, LARGE, rate=rate, size=KIB) == expected


def test_without_limits_nothing_is_removed() -> None:
    assert horizon(5, 900, 5, RetentionLimits(math.inf, math.inf), rate=1000.0, size=KIB) == 5


def test_the_rate_is_that_of_the_last_minutes() -> None:
    rate = EventRate()
    assert rate.saw(1000, 0.0) == 0.0
    assert rate.saw(1600, 60.0) == 10.0
    assert rate.saw(1600, RATE_SECONDS) == 1.0
    assert rate.saw(1600, RATE_SECONDS + 60) == 0.0
    assert rate.saw(1600, 10 * RATE_SECONDS) == 0.0


def test_the_size_of_events_is_measured() -> None:
    raw = [("ce_id", b"12345"), ("content-type", None)]
    assert bytes_of([]) == USUAL_BYTES
    assert bytes_of([of_event(0, 1, 0, raw, b"x" * 100), of_event(0, 2, 0, raw, None)]) == 70 + 5 + 5 + 12 + 8 + 50


def test_what_the_history_keeps_is_safe_as_far_as_it_reaches() -> None:
    assert Forecast(10).is_near(9)
    assert not Forecast(10).is_near(10)
    whole, broken = (Stretch(0, 12),), (Stretch(0, 4), Stretch(6, 12))
    assert not Forecast(10, whole).is_near(0)
    assert not Forecast(20, (Stretch(0, 12), Stretch(12, 20))).is_near(3)
    assert Forecast(20, whole).is_near(3), "the rest is not written, and Kafka is about to remove it"
    assert Forecast(10, broken).is_near(3)
    assert not Forecast(10, broken).is_near(6)


PAUSED = Route("paused", "Trigger", "soon", "paused", "b", subscriber=Endpoint("http://s/"), paused=True)
SLOW = Route("slow", "Trigger", "soon", "slow", "b", subscriber=Endpoint("http://s/"))
LATE = Route("late", "Trigger", "soon", "late", "b", subscriber=Endpoint("http://s/"))


def node() -> Node:
    EXPIRING.metric.clear()
    OLDEST.metric.clear()
    began = int(WALL * 1000) + 990_000
    log = [
        Written(o, ("paused", "slow") if o < 15 else ("paused", "slow", "late"), began + o * 1000) for o in range(20)
    ]
    routes = {one.uid: one for one in (PAUSED, SLOW, LATE)}
    return Node(routes, Topic({}, log), Topic({}, list(log)), {"max_outstanding": 30})


def gauge(route: Route, instrument: object = EXPIRING) -> float:
    write_metrics()
    return float(instrument.metric.labels(route.kind, route.namespace, route.name)._value.get())  # type: ignore[attr-defined]


async def read_all(one: Node) -> None:
    while one.position < len(one.matched.records):
        await one.read_tail()


@in_virtual_time
async def test_routes_are_warned_by_what_waits_for_them_and_no_longer_than_needed() -> None:
    one = node()
    await one.boot()
    await read_all(one)
    one.dispatcher.forecasts = {0: Forecast(10)}
    one.dispatcher.each_second()
    assert [gauge(route) for route in (PAUSED, SLOW, LATE)] == [1, 1, 0]
    assert {told.route for told in one.reports.standings if told.expiring} == {"paused", "slow"}
    one.dispatcher.forecasts = {0: Forecast(10, (Stretch(0, 18),))}
    one.dispatcher.each_second()
    assert [gauge(route) for route in (PAUSED, SLOW)] == [0, 0]
    newest = {told.route: told.expiring for told in one.reports.standings}
    assert not any(newest.values())
    one.dispatcher.forecasts = {0: Forecast(10)}
    await one.settle()
    one.dispatcher.each_second()
    assert [gauge(route) for route in (PAUSED, SLOW)] == [1, 0]
    await one.halt()


@in_virtual_time
async def test_what_waits_for_a_paused_route_has_an_age_and_a_place_also_after_a_restart() -> None:
    one = node()
    await one.boot()
    await read_all(one)
    one.flush()
    await one.crash()
    await one.settle()
    one.dispatcher.each_second()
    assert gauge(PAUSED, OLDEST) > 10
    assert one.dispatcher.longest_waiting() == {}, "not for long enough to look what retention does"
    await one.halt()


@in_virtual_time
async def test_only_what_has_waited_for_a_while_is_looked_at() -> None:
    one = node()
    await one.boot()
    await read_all(one)
    cursor = one.cursors.cursors["paused"]
    cursor.waits_at -= 3_600_000
    assert one.dispatcher.longest_waiting() == {0: 0}
    cursor.look_past(5)
    cursor.open_gap(7, 0)
    assert one.dispatcher.longest_waiting() == {0: 7}
    one.dispatcher.awaited.add(0)
    assert one.dispatcher.longest_waiting() == {}, "nothing is known of a partition that is not restored"
    await one.halt()


@in_virtual_time
async def test_a_replay_takes_what_there_is_and_is_not_warned() -> None:
    one = node()
    replay = Route("again", "Replay", "soon", "again", "b", subscriber=Endpoint("http://s/"), replay=Replay("Trigger"))
    one.routes["again"] = replay
    await one.boot()
    cursor = one.cursors.cursor("again")
    cursor.counts = Counts()
    cursor.take(3, 3, 1, 0, free=True)
    one.dispatcher.forecasts = {0: Forecast(10)}
    one.dispatcher.each_second()
    assert gauge(replay) == 0
    assert one.dispatcher.longest_waiting() == {}
    await one.halt()
