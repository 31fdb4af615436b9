"""Which changes of routes need another query, and what a change cannot bring back."""

from typing import Any

import msgspec
import pytest

from penstock.contract.routes import Delivery, Endpoint, Replay, Route
from penstock.contract.snapshot import Snapshot
from penstock.filters.walk import MAX_TERMS
from penstock.kafka.topic_ends import KafkaAway, Retained
from penstock.router.generations.generations import (
    CATCH_UP_SECONDS,
    START_SECONDS,
    RunningQuery,
    StandsStill,
    same_routing,
)
from penstock.router.generations.positions import LostRange, StartOffsets
from penstock.router.plan.route_index import RouteTable
from penstock.router.plan.unplannable import AGAIN_SECONDS
from tests.unit.router.generations_double import NEVER, Scene

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
def test_how_a_route_delivers_is_not_the_routers_business(change: dict[str, Any]) -> None:
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
def test_what_a_route_matches_is(change: dict[str, Any]) -> None:
    assert not same_routing({"r": ROUTE}, {"r": msgspec.structs.replace(ROUTE, **change)})


def test_a_route_more_or_less_needs_another_query() -> None:
    assert not same_routing({}, {"r": ROUTE})
    assert not same_routing({"r": ROUTE}, {})
    assert same_routing({}, {})


ENORMOUS = " OR ".join(f"LENGTH(type) > {number}" for number in range(MAX_TERMS // 4 + 1))


def route(uid: str, *start: int) -> Route:
    return msgspec.structs.replace(ROUTE, uid=uid, name=uid, start=start)


def test_a_new_route_whose_start_is_gone_is_told_what_it_lost() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10))
    scene.events = [Retained(40, 60)]
    scene.advance(2, route("old", 10), route("new", 25), route("in-reach", 45))
    assert scene.lost == [("new", LostRange(0, 25, 39))]
    assert scene.starts[-1].offsets == (40,)


def test_a_replay_is_none_of_the_routers_business() -> None:
    replay = msgspec.structs.replace(ROUTE, uid="again", kind="Replay", replay=Replay("Trigger", end=(3, 3)))
    assert same_routing({"r": ROUTE}, {"r": ROUTE, "again": replay})
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("r", 50), msgspec.structs.replace(replay, start=(0,)))
    assert scene.starts[-1].offsets == (50,)
    assert scene.tables[-1].most_matches()[0] == 1


def test_a_replay_of_what_is_gone_is_told_what_it_lost() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("r", 30))
    scene.events = [Retained(20, 60)]
    scene.advance(2, route("r", 5))
    assert scene.lost == [("r", LostRange(0, 5, 19))]


def test_a_gap_in_the_routing_is_told_to_each_route_once_as_far_as_it_wanted_it() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10))
    scene.generations.replace()
    scene.events = [Retained(70, 90)]
    scene.wrote(scene.serving.number, 0, 55)
    scene.advance(2, route("old", 10), route("new", 60))
    assert sorted(scene.lost) == [("new", LostRange(0, 60, 69)), ("old", LostRange(0, 56, 69))]


def test_a_loss_is_told_once_however_often_the_query_has_to_be_started() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10))
    scene.events = [Retained(40, 60)]
    scene.fails = [OSError("no"), OSError("no again")]
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            scene.advance(2, route("old", 10), route("new", 25))
    scene.advance(2, route("old", 10), route("new", 25))
    assert scene.lost == [("new", LostRange(0, 25, 39))]


def sql(uid: str, text: str, *start: int) -> Route:
    return msgspec.structs.replace(route(uid, *start), attributes={}, filters=[{"cesql": text}])


def test_a_route_that_cannot_be_planned_is_left_out_and_the_others_go_on() -> None:
    scene = Scene([Retained(0, 50)], origin=49, bad="bad")
    scene.advance(1, route("good", 10))
    routes = route("good", 10), sql("bad", "LENGTH(type) > 1", 50), sql("new", "LENGTH(type) > 2", 50)
    with pytest.raises(RuntimeError, match="cannot be planned"):
        scene.advance(2, *routes)
    assert scene.generations.examine(Snapshot(2, routes={found.uid: found for found in routes}))
    scene.advance(2, *routes)
    live = scene.announced[-1]
    assert (live.version, live.refused) == (2, {"bad": "bad"})
    assert [found.uid for bucket in scene.tables[-1].unfiled for found in bucket.candidates] == ["new"]


def test_a_route_that_failed_with_spark_is_served_minutes_later_without_any_change() -> None:
    scene = Scene([Retained(0, 50)], origin=49, bad="bad", bad_for_ever=False)
    routes = route("good", 10), sql("bad", "LENGTH(type) > 1", 50)
    snapshot = Snapshot(1, routes={found.uid: found for found in routes})
    with pytest.raises(RuntimeError, match="cannot be planned"):
        scene.generations.advance(snapshot)
    assert scene.generations.examine(snapshot)
    scene.generations.advance(snapshot)
    assert list(scene.serving.refused) == ["bad"]
    assert scene.generations.acts_by(snapshot)
    scene.now, scene.bad = scene.now + AGAIN_SECONDS, ""
    assert not scene.generations.acts_by(snapshot)
    scene.generations.advance(snapshot)
    assert (dict(scene.serving.refused), scene.generations.acts_by(snapshot)) == ({}, True)
    assert scene.starts[-1].offsets == (50,)


def test_a_route_that_is_mended_gets_what_came_since_it_was_published() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, sql("huge", ENORMOUS, 50))
    assert list(scene.announced[-1].refused) == ["huge"]
    scene.events = [Retained(0, 90)]
    scene.wrote(scene.serving.number, 0, 89)
    scene.advance(2, sql("huge", "LENGTH(type) > 1", 50))
    assert scene.announced[-1].refused == {}
    assert scene.starts[-1].offsets == (50,)


def test_a_refused_route_needs_no_new_query_for_every_version() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, sql("huge", ENORMOUS, 50))
    scene.advance(2, sql("huge", ENORMOUS, 50))
    assert len(scene.tables) == 1
    assert scene.announced[-1].version == 2
    assert list(scene.announced[-1].refused) == ["huge"]


def test_a_snapshot_with_other_routes_under_the_same_number_is_not_the_one_in_force() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    first, other = (Snapshot(1, routes={uid: route(uid, 10)}) for uid in ("a", "b"))
    scene.generations.advance(first)
    assert scene.generations.acts_by(first)
    assert not scene.generations.acts_by(other)


def partitions(count: int) -> list[Retained]:
    return [Retained(0, 50)] * count


def test_the_generation_before_serves_until_the_slowest_partition_has_caught_up() -> None:
    scene = Scene(partitions(3), origin=49)
    scene.advance(1, route("old"))
    scene.delays[2, 1] = 7.0
    scene.happened.clear()
    scene.advance(2, route("old"), route("new", 50, 50, 50))
    told = scene.happened
    first, second = scene.serving.number, 4
    assert first == 2
    assert told.index("2 passes 3 in 1") < told.index("1 ends") < told.index(f"2 passes {second} in 1")
    assert told[-1] == "2 is live", "only when the second marker is out of every partition"
    assert {f"2 passes {second} in {n}" for n in range(3)} <= set(told)


def test_a_marker_that_the_generation_before_passes_on_does_not_count() -> None:
    scene = Scene(partitions(1), origin=49)
    scene.advance(1, route("old"))
    scene.delays[2, 0] = NEVER
    with pytest.raises(StandsStill, match=r"generation 2 stands still in partitions \[0\]"):
        scene.advance(2, route("old"), route("new", 50))
    assert "1 passes 3 in 0" in scene.happened
    assert scene.serving.query.alive()
    assert [generation.version for generation in scene.announced] == [1]


def test_one_partition_that_stands_still_is_noticed_however_the_others_move() -> None:
    scene = Scene(partitions(3), origin=49)
    scene.advance(1, route("old"))
    scene.delays[2, 2] = NEVER
    began = scene.now
    with pytest.raises(StandsStill, match=r"in partitions \[2\]"):
        scene.advance(2, route("old"), route("new", 50, 50, 50))
    assert CATCH_UP_SECONDS < scene.now - began < CATCH_UP_SECONDS + 2
    assert scene.happened[-1] == "2 ends"
    assert scene.serving.number == 1


def test_a_query_may_take_its_time_to_start() -> None:
    scene = Scene(partitions(2), origin=49)
    scene.delays |= {(1, 0): START_SECONDS - 5, (1, 1): START_SECONDS + 5}
    scene.advance(1, route("old", 50, 50))
    assert scene.announced


def test_kafka_being_away_is_no_fault_of_a_generation() -> None:
    scene = Scene(partitions(1), origin=49)
    scene.advance(1, route("old"))
    scene.delays[2, 0] = NEVER
    scene.away = None

    launch = scene.generations._launch

    def goes_away(table: RouteTable, number: int, start: StartOffsets) -> RunningQuery:
        scene.away = KafkaAway("gone")
        return launch(table, number, start)

    scene.generations._launch = goes_away
    with pytest.raises(KafkaAway):
        scene.advance(2, route("old"), route("new", 50))


def test_a_live_generation_is_late_in_the_partition_that_stands_still_only() -> None:
    scene = Scene(partitions(3), origin=49)
    scene.advance(1, route("old"))
    scene.delays |= {(1, 0): 0.2, (1, 1): NEVER}
    scene.events = [Retained(0, kept.end + 9) for kept in scene.events]
    scene.tend(12)
    late = scene.generations.watch.late(scene.now)
    assert list(late) == [1]
    assert 9 < late[1] <= 13


def test_without_a_generation_beside_it_one_is_live_with_its_first_sign_of_life() -> None:
    scene = Scene(partitions(2), origin=49)
    scene.advance(1, route("old"))
    scene.generations.replace()
    scene.delays[2, 1] = NEVER
    scene.advance(2, route("old"))
    assert scene.announced[-1].number == 2


def test_a_query_that_reaches_back_is_not_live_before_it_is_through_everywhere() -> None:
    # Until then the newest record of partition 1 is of the generation before; a restart would go on behind it.
    scene = Scene(partitions(2), origin=49)
    scene.advance(1, route("old"))
    scene.generations.replace()
    scene.delays[2, 1] = 9.0
    scene.advance(2, route("old"), route("replayed", 10, 10))
    assert scene.starts[-1].offsets == (10, 10)
    assert scene.happened.index("2 passes 3 in 1") < scene.happened.index("2 is live")


def test_a_task_that_repeats_itself_before_its_query_ends_costs_no_repetition() -> None:
    scene = Scene(partitions(1), origin=49)
    scene.advance(1, route("r", 40))
    scene.events = [Retained(0, 1000)]
    scene.wrote(1, 0, 999)
    scene.wrote(1, 0, 60)
    scene.generations.replace()
    scene.advance(2, route("r", 40), route("more", 1000))
    assert scene.starts[-1].offsets == (1000,)


def test_what_was_served_before_a_restart_begins_where_routing_had_got_to() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10))
    scene.restart()
    scene.wrote(scene.queries[-1].number, 0, 80)
    scene.events = [Retained(0, 90)]
    scene.advance(1, route("old", 10))
    assert scene.starts[-1].offsets == (81,)


def test_a_restart_while_a_query_catches_up_for_a_new_route_starts_catching_up_again() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10))
    scene.fails = [OSError("killed")]
    with pytest.raises(OSError, match="killed"):
        scene.advance(2, route("old", 10), route("past", 5))
    scene.restart()
    scene.advance(2, route("old", 10), route("past", 5))
    assert scene.starts[-1].offsets == (5,)


def test_a_route_that_was_left_out_over_a_restart_gets_what_it_missed() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10), route("torn", 10))
    scene.restart()
    scene.events = [Retained(0, 70)]
    scene.wrote(scene.queries[-1].number, 0, 59)
    scene.advance(2, route("old", 10), unreadable="torn")  # begins at 60 without it, and goes on
    scene.restart()
    scene.events = [Retained(0, 90)]
    scene.wrote(scene.queries[-1].number, 0, 85)
    scene.advance(3, route("old", 10), route("torn", 10))
    assert scene.starts[-1].offsets == (60,)
    assert scene.starts[-1].reached == (86,)
    assert scene.notes["torn"].owed is None


def test_a_route_that_is_owed_events_and_deleted_is_forgotten() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10), route("torn", 10))
    scene.restart()
    scene.advance(2, route("old", 10), unreadable="torn")
    assert scene.notes["torn"].owed is not None
    scene.advance(3, route("old", 10), route("new", 50))
    assert set(scene.notes) == {"old", "new"}


def test_a_query_without_a_route_does_not_start_before_that_is_noted() -> None:
    scene = Scene([Retained(0, 50)], origin=49)
    scene.advance(1, route("old", 10), route("torn", 10))
    scene.restart()
    scene.note_fails = KafkaAway("away")
    with pytest.raises(KafkaAway):
        scene.advance(2, route("old", 10), unreadable="torn")
    assert len(scene.queries) == 1
