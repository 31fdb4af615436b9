"""Which changes of routes need another query."""

import msgspec
import pytest

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.router.generations import same_routing

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
