"""Which changes of routes need another query, and what a change cannot bring back."""

import msgspec
import pytest
from generations_double import Scene

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.router.generations import same_routing
from penstock.router.positions import Gap, Retained

ROUTE = Route(
    uid="r", kind="Trigger", namespace="default", name="r", target="t", attributes={"type": "x"}, start=(1, 2)
)


@pytest.mark.parametrize(
    "change",
    [
        {"subscriber": Endpoint("http://elsewhere")},
        {"reply": Endpoint("http://elsewhere")},
        {"delivery": Delivery(retry=3)},
        {"max_in_flight": 5},
        {"ordering": "key"},
        {"paused": True},
        {"generation": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_how_a_route_delivers_is_not_the_routers_business(change):
    assert same_routing({"r": ROUTE}, {"r": msgspec.structs.replace(ROUTE, **change)})


@pytest.mark.parametrize(
    "change",
    [
        {"target": "other"},
        {"attributes": {"type": "y"}},
        {"filters": [{"prefix": {"type": "x"}}]},
        {"start": (1, 0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_route_matches_is(change):
    assert not same_routing({"r": ROUTE}, {"r": msgspec.structs.replace(ROUTE, **change)})


def test_a_route_more_or_less_needs_another_query():
    assert not same_routing({}, {"r": ROUTE})
    assert not same_routing({"r": ROUTE}, {})
    assert same_routing({}, {})


def route(uid: str, *start: int) -> Route:
    return msgspec.structs.replace(ROUTE, uid=uid, name=uid, start=start)


def test_a_new_route_whose_start_is_gone_is_told_what_it_lost():
    scene = Scene(Retained(0, 50), origin=49)
    scene.advance(1, route("old", 10))
    scene.events = Retained(40, 60)
    scene.advance(2, route("old", 10), route("new", 25), route("in-reach", 45))
    assert scene.lost == [("new", Gap(0, 25, 39))]
    assert scene.starts[-1].offsets == (40,)


def test_a_replay_of_what_is_gone_is_told_what_it_lost():
    scene = Scene(Retained(0, 50), origin=49)
    scene.advance(1, route("r", 30))
    scene.events = Retained(20, 60)
    scene.advance(2, route("r", 5))
    assert scene.lost == [("r", Gap(0, 5, 19))]


def test_a_gap_in_the_routing_is_told_to_each_route_once_as_far_as_it_wanted_it():
    scene = Scene(Retained(0, 50), origin=49)
    scene.advance(1, route("old", 10))
    scene.generations.replace()
    scene.origin, scene.events = 50, Retained(70, 90)
    scene.advance(2, route("old", 10), route("new", 60))
    assert sorted(scene.lost) == [("new", Gap(0, 60, 69)), ("old", Gap(0, 51, 69))]


def test_a_loss_is_told_once_however_often_the_query_has_to_be_started():
    scene = Scene(Retained(0, 50), origin=49)
    scene.advance(1, route("old", 10))
    scene.events = Retained(40, 60)
    scene.fails = [OSError("no"), OSError("no again")]
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            scene.advance(2, route("old", 10), route("new", 25))
    scene.advance(2, route("old", 10), route("new", 25))
    assert scene.lost == [("new", Gap(0, 25, 39))]
