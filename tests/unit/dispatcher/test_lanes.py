"""Turns, limits, due times and pauses of lanes; and where the partition leaves routes that cannot keep up."""

from __future__ import annotations

import msgspec

from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Cursor, Outstanding
from penstock.dispatcher.cursors.partition import PartitionCursors, TailPosition
from penstock.dispatcher.lanes import GRANTED, Job, Lane, Schedule
from penstock.dispatcher.matched_record import Matched


def route(uid: str, **fields: object) -> Route:
    return msgspec.structs.replace(Route(uid, "Trigger", "ns", uid, "b", subscriber=Endpoint("http://s/")), **fields)


def job(lane: Lane, origin: int, *, due: float = 0.0, key: int = 0, partition: int = 0) -> Job:
    cursor = Cursor(lane.route.uid, 0, None, set())
    return Job(lane, partition, cursor, Outstanding(origin, origin, 0, key), due=due)


def popped(schedule: Schedule) -> list[tuple[str, int]]:
    taken = []
    while (next_job := schedule.pop()) is not None:
        taken.append((next_job.lane.route.uid, next_job.delivery.origin))
    return taken


def test_lanes_take_turns() -> None:
    schedule, a, b = Schedule(100), Lane(route("a"), 10), Lane(route("b"), 10)
    for origin in range(3):
        schedule.add(job(a, origin), 0)
    schedule.add(job(b, 9), 0)
    assert popped(schedule) == [("a", 0), ("b", 9), ("a", 1), ("a", 2)]


def test_a_lane_has_its_limit() -> None:
    schedule, a = Schedule(100), Lane(route("a"), 2)
    jobs = [job(a, origin) for origin in range(4)]
    for one in jobs:
        schedule.add(one, 0)
    assert popped(schedule) == [("a", 0), ("a", 1)]
    schedule.landed(jobs[0])
    assert popped(schedule) == [("a", 2)]


def test_the_task_has_a_limit_but_nobody_is_shut_out() -> None:
    schedule, hanging, well = Schedule(12), Lane(route("hanging"), 100), Lane(route("well"), 100)
    for origin in range(50):
        schedule.add(job(hanging, origin), 0)
    assert len(popped(schedule)) == 12
    jobs = [job(well, origin) for origin in range(20)]
    for one in jobs:
        schedule.add(one, 0)
    assert popped(schedule) == [("well", origin) for origin in range(GRANTED)]
    for done in range(5):
        schedule.landed(jobs[done])
    assert [uid for uid, _ in popped(schedule)] == ["well"] * 5
    for done in range(5, 5 + GRANTED):
        schedule.landed(jobs[done])
    started = [uid for uid, _ in popped(schedule)]
    assert started.count("well") == 7
    assert schedule.in_flight >= 12


def test_a_held_lane_goes_on_when_others_are_done() -> None:
    schedule, a, b = Schedule(10), Lane(route("a"), 100), Lane(route("b"), 100)
    for origin in range(10):
        schedule.add(job(a, origin), 0)
    first = list(iter(schedule.pop, None))
    for origin in range(10):
        schedule.add(job(b, origin), 0)
    assert len(popped(schedule)) == GRANTED  # two of b's are held
    for one in first[:9]:
        schedule.landed(one)
    assert len(popped(schedule)) == 1
    schedule.landed(first[9])
    assert len(popped(schedule)) == 1


def test_what_waits_comes_due_in_order() -> None:
    schedule, a = Schedule(10), Lane(route("a"), 10)
    schedule.add(job(a, 1, due=20.0), 0.0)
    schedule.add(job(a, 2, due=10.0), 0.0)
    assert (popped(schedule), schedule.next_due) == ([], 10.0)
    assert schedule.due(15.0) == 1
    assert popped(schedule) == [("a", 2)]
    assert schedule.due(20.0) == 1
    assert (popped(schedule), schedule.next_due) == ([("a", 1)], None)


def test_a_key_waits_for_its_predecessor_but_not_for_another_partition() -> None:
    schedule, a = Schedule(10), Lane(route("a", ordering="key"), 10)
    first = job(a, 1, key=7)
    for one in (first, job(a, 2, key=7), job(a, 3, key=8), job(a, 4, key=7, partition=1)):
        schedule.add(one, 0)
    assert popped(schedule) == [("a", 1), ("a", 3), ("a", 4)]
    schedule.landed(first)
    first.due = 5.0
    schedule.retry(first, 0.0)
    assert popped(schedule) == []
    schedule.due(5.0)
    assert popped(schedule) == [("a", 1)]
    schedule.landed(first)
    schedule.ended(first, 5.0)
    assert popped(schedule) == [("a", 2)]


def test_a_paused_lane_holds_what_it_has() -> None:
    schedule, a = Schedule(10), Lane(route("a", paused=True), 10)
    schedule.add(job(a, 1), 0)
    assert popped(schedule) == []
    a.route = route("a")
    schedule.refresh(a)
    assert popped(schedule) == [("a", 1)]


def test_a_closed_lane_lets_go_of_everything() -> None:
    schedule, a, b = Schedule(10), Lane(route("a", ordering="key"), 10), Lane(route("b"), 10)
    under_way = job(a, 0)
    schedule.add(under_way, 0)
    assert popped(schedule) == [("a", 0)]
    for one in (job(a, 1, key=7), job(a, 2, key=7), job(a, 3, due=9.0), job(b, 4, due=9.0)):
        schedule.add(one, 0.0)
    assert sorted(one.delivery.origin for one in schedule.close(a)) == [1, 2, 3]
    schedule.landed(under_way)
    schedule.retry(under_way, 0.0)
    assert schedule.due(10.0) == 1
    assert popped(schedule) == [("b", 4)]


def matched(offset: int, origin: int, *routes: str) -> Matched:
    return Matched(0, offset, 0, origin, routes=routes, raw=[], value=None)


def always(_: Cursor) -> bool:
    return True


def never(_: Cursor) -> bool:
    return False


def test_an_unknown_route_waits_for_its_snapshot() -> None:
    partition = PartitionCursors(0, 0)
    log = [matched(0, 0, "late"), matched(1, 1, "late")]
    for record in log:
        assert list(partition.take(record, {}, (), always)) == []
    assert partition.cursors["late"].resume == 0
    assert partition.next_chunk({}, always) is None
    routes = {"late": route("late")}
    assert partition.next_chunk(routes, always) == 0
    starts = list(partition.catch_up(0, 2, log, routes, has_capacity=always, has_capacity_for_chunk=always))
    assert [start.delivery.origin for start in starts] == [0, 1]
    assert partition.cursors["late"].attached


def test_a_route_that_is_gone_leaves_no_cursor() -> None:
    partition = PartitionCursors(0, 0)
    assert list(partition.take(matched(0, 0, "gone"), {}, {"gone"}, always)) == []
    assert partition.cursors == {}


def test_a_paused_route_is_left_behind_and_reads_on_later() -> None:
    partition = PartitionCursors(0, 0)
    paused = {"r": route("r", paused=True)}
    assert list(partition.take(matched(0, 0, "r"), paused, (), always)) == []
    assert partition.next_chunk(paused, always) is None
    assert partition.next_chunk({"r": route("r")}, always) == 0


def test_detached_routes_take_turns() -> None:
    partition, routes = PartitionCursors(0, 0), {"long": route("long"), "short": route("short")}
    for offset in range(10):
        names = ("long", "short") if offset > 7 else ("long",)
        list(partition.take(matched(offset, offset, *names), routes, (), never))
    assert partition.next_chunk(routes, always) == 0
    assert partition.next_chunk(routes, always) == 8
    assert partition.next_chunk(routes, always) == 0


def test_what_a_closed_lane_left_behind_is_never_due_and_does_not_pile_up() -> None:
    schedule, kept = Schedule(10), Lane(route("kept"), 10)
    schedule.add(job(kept, 0, due=50.0), 0.0)
    for turn in range(20):
        lane = Lane(route(f"gone{turn}"), 10)
        for origin in range(10):
            schedule.add(job(lane, origin, due=9.0), 0.0)
        assert len(schedule.close(lane)) == 10
        assert len(schedule._waiting) <= 12
    assert schedule.next_due == 50.0
    assert schedule.due(10.0) == 0
    assert schedule.due(50.0) == 1


def test_a_log_that_was_cut_off_is_known_by_its_last_record() -> None:
    partition = PartitionCursors(0)
    list(partition.take(matched(4, 40, "r"), {"r": route("r")}, (), never))
    again = PartitionCursors(0)
    again.restore(partition.position, [Cursor("r", 0, 4, again.changed)])
    assert again.was_last(matched(4, 40))
    assert not again.was_last(matched(4, 41))
    assert not again.was_last(Matched(0, 4, 1, 40, routes=(), raw=[], value=None)), "written again, later"
    again.start_over()
    assert (again.tail, again.next_chunk({"r": route("r")}, always)) == (None, None)
    list(again.take(matched(0, 7, "r"), {"r": route("r")}, (), never))
    assert (again.cursors["r"].resume, again.cursors["r"].gap) == (0, None), "it reads on with the tail"


def test_a_route_that_stood_before_what_is_left_of_a_log_that_was_cut_off_reads_events() -> None:
    partition = PartitionCursors(0)
    partition.restore(TailPosition(9, 40), [Cursor("r", 3, 4, partition.changed)])
    partition.start_over()
    record = matched(5, 7, "r")
    assert not partition.lacks(record), "the tail has read what is gone"
    list(partition.take(record, {"r": route("r")}, (), always))
    assert partition.cursors["r"].gap == 3
