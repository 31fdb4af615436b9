"""Where a query starts, and what it reports as lost."""

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Route
from penstock.kafka.topic_ends import Retained
from penstock.router.generations.positions import (
    LostRange,
    StartOffsets,
    losses,
    out_of_reach,
    reach_back,
    resume,
    starts_of_served,
)


def route(uid: str = "r", start: tuple[int, ...] = ()) -> Route:
    return Route(uid=uid, kind="Trigger", namespace="default", name=uid, target="t", start=start)


def test_routing_goes_on_right_after_the_newest_origin() -> None:
    assert resume({0: 41, 1: 7}, [Retained(0, 100), Retained(0, 8)]) == StartOffsets((42, 8))


def test_a_partition_nothing_was_routed_from_starts_at_its_oldest_event() -> None:
    assert resume({}, [Retained(0, 100)]) == StartOffsets((0,))
    assert resume({}, [Retained(5, 100)]) == StartOffsets((5,), (LostRange(0, 0, 4),))


def test_an_event_that_was_routed_in_part_is_read_again() -> None:
    assert resume({0: 41, 1: -1}, [Retained(0, 100), Retained(0, 8)]) == StartOffsets((42, 0))


def test_events_that_retention_removed_unrouted_are_a_gap() -> None:
    assert resume({0: 9}, [Retained(25, 100)]) == StartOffsets((25,), (LostRange(0, 10, 24),))


def test_an_origin_beyond_the_end_of_the_events_does_not_end_in_an_offset_that_kafka_refuses() -> None:
    assert resume({0: 500}, [Retained(0, 100)]).offsets == (100,)


def test_a_new_route_moves_the_start_back_to_its_own() -> None:
    found = reach_back(StartOffsets((50, 60)), [route(start=(40, 70))], [Retained(0, 90), Retained(0, 90)])
    assert found.offsets == (40, 60)


def test_a_new_route_without_a_start_begins_with_the_oldest_event() -> None:
    assert reach_back(StartOffsets((50,)), [route()], [Retained(3, 90)]).offsets == (3,)


def test_a_start_older_than_what_is_retained_is_cut() -> None:
    assert reach_back(StartOffsets((50,)), [route(start=(1,))], [Retained(30, 90)]).offsets == (30,)


def test_what_a_new_route_can_no_longer_get_is_lost_to_it() -> None:
    retained = [Retained(30, 90), Retained(5, 90), Retained(0, 90)]
    cut, whole = route("cut", (10, 5, 0)), route("whole", (30, 40, 0))
    assert out_of_reach([cut, whole], retained) == [(cut, LostRange(0, 10, 29))]


def test_a_new_route_without_a_start_misses_nothing() -> None:
    assert out_of_reach([route()], [Retained(3, 90)]) == []


def test_a_new_route_that_wants_nothing_older_leaves_the_start_as_it_is() -> None:
    start = StartOffsets((10, 20))
    assert reach_back(start, [route("new", (10, 25))], [Retained(0, 90), Retained(0, 90)]) == start


def test_a_loss_is_reported_to_the_routes_that_were_still_to_get_it() -> None:
    old, younger, newest = route("old", (0,)), route("younger", (15,)), route("newest", (25,))
    found = losses([LostRange(0, 10, 24)], [old, younger, newest])
    assert found == [(old, LostRange(0, 10, 24)), (younger, LostRange(0, 15, 24))]


def test_what_retention_removed_from_a_new_partition_before_it_was_ever_routed_is_lost_to_older_routes() -> None:
    older, younger, all_there_is = route("older", (7,)), route("younger", (9, 3)), route("all")
    gap = LostRange(1, 0, 4)
    assert losses([gap], [older, younger, all_there_is]) == [(older, gap), (younger, LostRange(1, 3, 4))]
    assert out_of_reach([older, all_there_is], [Retained(0, 9), Retained(5, 9)]) == [(older, gap)]


def test_a_start_is_written_as_spark_reads_it() -> None:
    assert json.loads(StartOffsets((3, 9)).as_json("penstock.events")) == {"penstock.events": {"0": 3, "1": 9}}


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 120)), min_size=1, max_size=4
    ),
    st.lists(st.integers(0, 120), max_size=4),
)
def test_no_retained_event_behind_the_newest_origin_is_skipped(
    partitions: list[tuple[int, int, int | None]], wanted: list[int]
) -> None:
    retained = [Retained(first, first + size) for first, size, _ in partitions]
    origins = {number: origin for number, (_, _, origin) in enumerate(partitions) if origin is not None}
    start = reach_back(resume(origins, retained), [route(start=tuple(wanted))] if wanted else [], retained)
    for number, kept in enumerate(retained):
        offset = start.offsets[number]
        assert kept.first <= offset <= kept.end
        unrouted = range(max(kept.first, origins.get(number, kept.first - 1) + 1), kept.end)
        assert all(offset <= event for event in unrouted)


def test_routes_that_were_served_get_nothing_again_when_a_query_reaches_back() -> None:
    served, fresh, late = route("served", (3, 70)), route("fresh", (40, 0)), route("late")
    start = reach_back(StartOffsets((50, 60)), [fresh], [Retained(0, 90), Retained(0, 90)])
    assert start == StartOffsets((40, 0), (), (50, 60))
    starts = starts_of_served([served, fresh, late], [fresh], start)
    assert [starts.get(each.uid, each.start) for each in (served, fresh, late)] == [(50, 70), (40, 0), (50, 60)]
