"""Markers: when they are sent, when they are out, and what they say."""

from penstock.kafka.topic_ends import Retained
from penstock.router.generations.markers import MarkerRound, MarkerWatch
from penstock.router.matched_record import Marker, MatchedRecord, decode, decode_marker

MARKER = Marker(generation=7, sequence=3, sent_ms=1_000)


def out(partition: int, origin: int = 10, generation: int = 7, marker: Marker | None = MARKER) -> MatchedRecord:
    return MatchedRecord(partition, 0, origin, generation, 1_004, marker)


def under_way(watch: MarkerWatch, now: float = 100.0) -> None:
    watch.sent(MarkerRound(MARKER, {0, 1}), {0: 10, 1: 20}, now)


def test_a_round_is_complete_when_its_marker_came_out_of_every_partition() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch)
    watch.saw([out(0)], 100.1)
    assert watch.pending is not None
    watch.saw([out(1)], 100.2)
    assert watch.pending is None
    assert watch.transit_ms == 4


def test_the_same_marker_out_of_the_previous_generation_does_not_count() -> None:
    marks = MarkerRound(MARKER, {0})
    marks.saw(out(0, generation=6))
    assert not marks.complete


def test_a_marker_of_an_earlier_process_with_the_same_numbers_does_not_count() -> None:
    marks = MarkerRound(MARKER, {0})
    marks.saw(out(0, marker=Marker(7, 3, 999)))
    assert not marks.complete


def test_only_partitions_with_traffic_since_their_marker_get_another() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch)
    assert watch.busy([Retained(0, 11), Retained(0, 25)]) == [1]


def test_markers_are_looked_for_once_per_interval_and_never_while_some_are_under_way() -> None:
    watch = MarkerWatch(interval=2)
    assert watch.due(100)
    under_way(watch)
    assert not watch.due(500)
    watch.saw([out(0), out(1)], 100.1)
    assert not watch.due(101.9)
    assert watch.due(102)
    watch.looked(102)
    assert not watch.due(103)


def test_a_partition_is_late_until_something_comes_out_of_it() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch, now=100)
    assert watch.late(115) == {0: 15, 1: 15}
    watch.saw([out(0, origin=9, marker=None)], 115)
    assert watch.late(120) == {0: 5, 1: 20}


def test_a_partition_whose_marker_is_out_is_not_late() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch, now=100)
    watch.saw([out(1)], 101)
    assert watch.late(115) == {0: 15}


def test_what_another_generation_writes_is_no_sign_of_life() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch, now=100)
    watch.saw([out(0, generation=6, marker=None)], 115)
    assert watch.late(115) == {0: 15, 1: 15}


def test_a_kafka_that_was_away_is_no_fault_of_the_query() -> None:
    watch = MarkerWatch(interval=2)
    under_way(watch, now=100)
    watch.reset(190)
    assert watch.late(195) == {0: 5, 1: 5}


def test_without_markers_under_way_nothing_is_late() -> None:
    assert MarkerWatch(interval=2).late(1e9) == {}


def test_a_task_that_repeats_itself_does_not_move_its_generation_back() -> None:
    watch = MarkerWatch(interval=2)
    watch.saw([out(0, origin=89), out(0, origin=10)], 1)
    assert watch.origin(out(0, origin=10)) == 89


def test_how_far_another_generation_was_says_nothing_about_the_one_that_wrote_last() -> None:
    watch = MarkerWatch(interval=2)
    watch.saw([out(0, origin=89, generation=6), out(0, origin=10, generation=7), out(0, origin=90, generation=6)], 1)
    assert watch.origin(out(0, origin=10, generation=7)) == 10
    assert watch.origin(out(0, origin=90, generation=6)) == 90


def test_lag_counts_what_is_retained_and_has_not_come_out() -> None:
    watch = MarkerWatch(interval=2)
    watch.saw([out(0, origin=89)], 1)
    watch.measure([Retained(0, 100), Retained(40, 45)])
    assert watch.lag == 10 + 5


def test_a_marker_that_waited_for_its_query_to_start_says_nothing_about_speed() -> None:
    watch = MarkerWatch(interval=2)
    watch.sent(MarkerRound(MARKER, {0}), {0: 10}, 100, timed=False)
    watch.saw([out(0)], 103)
    assert watch.pending is None
    assert watch.transit_ms is None


def test_every_marker_is_timed() -> None:
    seen: list[float] = []
    watch = MarkerWatch(interval=2, timed=seen.append)
    under_way(watch)
    watch.saw([out(0), out(1)], 100.1)
    assert seen == [4.0]


def test_a_marker_survives_its_header() -> None:
    assert decode_marker(MARKER.encode()) == MARKER


def test_what_is_no_marker_is_none() -> None:
    assert [decode_marker(raw) for raw in (b"", b"1:2", b"a:b:c", b"1:2:3:4", b"-1:2:3", b"\xff:1:2")] == [None] * 6


def test_a_record_of_matched_is_read_by_its_headers() -> None:
    pairs = [("ce_id", b"1"), ("penstock_origin", b"42"), ("penstock_routes", b""), ("penstock_generation", b"7")]
    assert decode(1, 5, 1_000, pairs) == MatchedRecord(1, 5, 42, 7, 1_000)
    assert decode(1, 5, 1_000, [*pairs, ("penstock_marker", b"7:3:1000")]) == MatchedRecord(1, 5, 42, 7, 1_000, MARKER)


def test_an_event_counts_as_routed_with_the_last_of_its_records() -> None:
    pairs = [("penstock_origin", b"42"), ("penstock_routes", b"a,b"), ("penstock_generation", b"7")]
    parts = [[*pairs, ("penstock_parts_left", b"2")], [*pairs, ("penstock_parts_left", b"1")], pairs]
    found = [decode(1, offset, 1_000, part) for offset, part in enumerate(parts)]
    assert [record.origin for record in found if record] == [41, 41, 42]


def test_a_record_that_the_router_did_not_write_is_passed_over() -> None:
    assert decode(0, 0, 0, None) is None
    assert decode(0, 0, 0, [("penstock_origin", None)]) is None
    assert decode(0, 0, 0, [("penstock_origin", b"x"), ("penstock_generation", b"1")]) is None
