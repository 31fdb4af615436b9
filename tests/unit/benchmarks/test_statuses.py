"""What statuses cost: which routes there are, what is taken off. Measured by `python -m tools.benchmarks.statuses`."""

from __future__ import annotations

import pytest

from tools.benchmarks.report import others
from tools.benchmarks.stack import Usage
from tools.benchmarks.statuses import BROKERS, Share, figures, routes_by_broker


def test_every_route_has_a_broker_and_one_in_twenty_fails() -> None:
    routes = routes_by_broker(10_000, "http://subscribers/s/")
    assert [len(some) for some in routes.values()] == [10_000 // BROKERS] * BROKERS
    for some in routes.values():
        assert len({route["attributes"]["type"] for route in some}) == len(some)
        assert [route["subscriber"] for route in some].count("http://subscribers/s/1") == len(some) // 20


def test_routes_that_cannot_be_spread_evenly_are_all_there() -> None:
    assert [len(some) for some in routes_by_broker(13, "").values()] == [2, 2, 2, 1, 1, 1, 1, 1, 1, 1]


def test_what_writers_take_when_idle_does_not_count_and_others_never_do() -> None:
    before = Usage(cpu_by_process={"control": 10.0, "apiserver": 5.0, "kafka": 0.0})
    rested = Usage(cpu_by_process={"control": 10.4, "apiserver": 5.2, "kafka": 3.0})
    worked = Usage(cpu_by_process={"control": 11.6, "apiserver": 6.4, "kafka": 50.0})
    idle, working = Share.between(before, rested, 20.0), Share.between(rested, worked, 60.0)
    assert working.percent["kafka"] == pytest.approx(100 * 47 / 60)
    found = figures(idle, working, statuses=480, events=30)
    assert found == {
        "idle_percent_of_a_core": pytest.approx(3.0),
        "load_percent_of_a_core": pytest.approx(4.0),
        "status_writing_percent_of_a_core": pytest.approx(1.0),
        "statuses_per_second": 8.0,
        "events_per_second": 0.5,
    }


def test_the_page_shows_what_statuses_cost() -> None:
    measured = {"triggers": 10_000, "status_writing_percent_of_a_core": 3.5, "idle_by_process": {"control": 1.0}}
    row = others({"penstock": {"status-10000": measured}})[-1]
    assert row == "| status-10000 | triggers 10,000, status writing percent of a core 3.50 |"
