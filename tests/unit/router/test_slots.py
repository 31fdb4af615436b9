"""Too few task slots are told with their numbers, and what runs goes on."""

from __future__ import annotations

import pytest

from penstock.contract.routes import Route
from penstock.kafka.topic_ends import Retained
from penstock.router.watchdogs import TooFewSlots, least_slots, shortage
from penstock.settings import Settings
from tests.unit.router.generations_double import Scene

SETTINGS = Settings(partitions=4, dispatchers=1)


def route(uid: str) -> Route:
    return Route(uid=uid, kind="Trigger", namespace="n", name=uid, target="t", attributes={"type": uid}, start=(0,))


def test_a_change_of_routes_needs_two_queries_at_once_and_says_so() -> None:
    assert shortage(SETTINGS, 4, SETTINGS.task_slots, beside=True) is None
    told = shortage(SETTINGS, 4, 6, beside=True)
    assert told is not None
    assert told.startswith("A change of routes needs 11 task slots, the Spark cluster has 6: 2 x 4 partitions, 1 disp")
    assert "spark_executor_cores" in told


def test_a_query_alone_needs_fewer() -> None:
    assert least_slots(SETTINGS, 4) == 6
    assert shortage(SETTINGS, 4, 6, beside=False) is None
    assert shortage(SETTINGS, 4, 5, beside=False) is not None


def test_where_spark_does_not_say_how_many_there_are_it_is_tried() -> None:
    assert shortage(SETTINGS, 4, None, beside=True) is None


def test_a_generation_without_room_is_not_started_and_the_one_before_serves() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("a"))
    asked: list[tuple[int, bool]] = []

    def full(partitions: int, beside: bool) -> None:
        asked.append((partitions, beside))
        raise TooFewSlots("no room")

    scene.generations._check_slots = full
    sent = list(scene.events)
    with pytest.raises(TooFewSlots):
        scene.advance(2, route("a"), route("b"))
    assert asked == [(1, True)]
    assert scene.serving.query.alive()
    assert (len(scene.queries), scene.events) == (1, sent), "nothing was begun"
