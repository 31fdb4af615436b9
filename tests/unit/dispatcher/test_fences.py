"""Routes that read on their own over many generations of the router: what was shut out stays so, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher import dispatcher
from penstock.dispatcher.cursors import partition
from penstock.dispatcher.cursors.cursor import Cursor
from penstock.dispatcher.cursors.fences import Fence, Fences
from penstock.dispatcher.cursors.partition import Edge, EdgeSearch, PartitionCursors, TailPosition
from penstock.dispatcher.matched_record import Matched
from tests.unit.dispatcher.dispatcher_double import Node, Topic, Written
from tests.unit.dispatcher.virtual_time import run

GENERATIONS, EACH = 40, 3
LIMITS = {"catch_up_records": 7}
ROUTE = Route("r", "Trigger", "ns", "r", "broker", subscriber=Endpoint("http://s/"), delivery=Delivery(retry=3))


def log_of(late: int, after: int, routes: tuple[str, ...] = ("r",)) -> list[Written]:
    """Forty generations with their fences; so many records after the second fence the first writes once more, far
    ahead."""
    matched: list[Written] = []
    for generation in range(1, GENERATIONS + 1):
        begin = (generation - 1) * EACH
        matched.append(Written(begin - 1, (), len(matched), generation, fence=True))
        matched += [Written(begin + number, routes, len(matched) + number, generation) for number in range(EACH)]
    matched.insert(EACH + 2 + after, Written(late, routes, len(matched), 1))
    return matched


async def read_all(node: Node) -> None:
    while node.position < len(node.matched.records):
        await node.read_tail()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("paused_after", "late_after"), [(0, 0), (2, 0), (5, 1), (6, 2)])
def test_a_route_paused_over_forty_generations_gets_every_event(
    paused_after: int, late_after: int, *, restarts: bool
) -> None:
    """It is paused before a fence is read, or right behind the one that shuts a late record out."""

    async def story() -> None:
        count = GENERATIONS * EACH
        events = [Written(origin, (), origin) for origin in range(count)]
        node = Node({"r": ROUTE}, Topic({}, log_of(count // 2, late_after)), Topic({}, events), LIMITS)
        await node.boot()
        for _ in range(paused_after):
            await node.read_tail()
        await node.settle_requests()
        node.routes["r"] = msgspec.structs.replace(ROUTE, paused=True)
        node.dispatcher.apply(node.snapshot(2))
        await read_all(node)
        if restarts:
            node.flush()
            await node.crash()
        node.routes["r"] = ROUTE
        node.dispatcher.apply(node.snapshot(3))
        await node.settle()
        assert sorted({event for _, event in node.seen}) == list(range(count))
        await node.halt()

    run(story())


def test_a_route_that_reads_from_the_beginning_minds_the_fences_that_others_know() -> None:
    """Its cursor could not be read, and it stands beside a route that knows which fence is in force there."""
    routes = {uid: msgspec.structs.replace(ROUTE, uid=uid) for uid in "rs"}
    log = log_of(GENERATIONS * EACH // 2, 2, ("s", "r"))

    def matched(offset: int) -> Matched:
        record = Topic({}, log).at(offset)
        assert record is not None
        return record

    cursors = PartitionCursors(0, len(log))
    known, unknown = (Cursor(uid, EACH + 1, EACH + 3, cursors.changed) for uid in "rs")
    known.pass_fence(2)
    cursors.restore(None, [known, unknown])
    begun = cursors.catch_up(
        EACH + 3,
        EACH + 5,
        [matched(EACH + 3), matched(EACH + 4)],
        routes,
        has_capacity=always,
        has_capacity_for_chunk=always,
    )
    assert sorted((new.cursor.route, new.delivery.origin) for new in begun) == [("r", EACH + 1), ("s", EACH + 1)]


def always(_: Cursor) -> bool:
    return True


class Missed:
    """The dispatcher did not read while the second generation followed the first one, and retention has removed the
    fence. The simulation found it: what a task of the first generation writes then counted, and the events that it is
    ahead were skipped."""

    def __init__(self, *routes: Route) -> None:
        uids = tuple(route.uid for route in routes)
        self.uids = uids
        first = [Written(-1, (), 0, 1, fence=True), *(Written(origin, uids, origin, 1) for origin in range(5))]
        second = [Written(4, (), 5, 2, fence=True), *(Written(origin, uids, origin, 2) for origin in (5, 6))]
        self.removed = len(first) + len(second)
        events = Topic({}, [Written(origin, uids, origin) for origin in range(7)])
        self.node = Node({route.uid: route for route in routes}, Topic({}, [*first, *second]), events, dict(LIMITS))

    async def begin(self, kept: int = 0) -> None:
        """Reads the first events, and misses what retention removes: all but so many records."""
        await self.node.boot()
        for _ in range(3):
            await self.node.read_tail()
        await self.node.settle_requests()
        self.node.matched.first = self.removed - kept

    def write(self, *records: tuple[int, int]) -> None:
        """Events are accepted as far as these records of a generation and an origin go, which are written."""
        events = self.node.events.records
        newest = max(origin for _, origin in records)
        events += [Written(origin, self.uids, origin) for origin in range(len(events), newest + 1)]
        self.node.matched.records += [Written(origin, self.uids, origin, number) for number, origin in records]

    def seen(self, uid: str = "r") -> list[int]:
        return sorted(event for route, event in self.node.seen if route == uid)


LATE = (1, 9)
"""What a task of the first generation writes too late, ahead of the second one."""


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_fence_that_retention_removed_unread_still_shuts_out(kept: int, *, settled: bool) -> None:
    """Also where the late record is the first of all that follow."""

    async def story() -> None:
        missed = Missed(ROUTE)
        await missed.begin(kept)
        if settled:
            await missed.node.settle()
            assert missed.seen() == list(range(7))
        missed.write(LATE)
        await missed.node.settle()
        missed.write(LATE, (2, 7), (2, 8), LATE, (2, 9))
        missed.write(*((2, origin) for origin in range(10, 13)))
        await missed.node.settle()
        missed.write((1, 15), *((2, origin) for origin in range(13, 16)))
        await missed.node.settle()
        assert missed.seen() == list(range(16))
        assert missed.node.cursors.cursors["r"].attached
        assert missed.node.reports.losses == []
        await missed.node.halt()

    run(story())


def test_while_the_fence_in_force_is_unknown_routes_read_the_events_over_restarts_too() -> None:
    async def story() -> None:
        missed = Missed(ROUTE)
        node = missed.node
        node.reports_away = True
        await missed.begin()
        missed.write(LATE, (2, 7))
        await node.settle()
        node.flush()
        assert missed.seen() == list(range(10))
        for number in (20, 30):
            await node.crash()
            missed.write((1, number), *((2, origin) for origin in range(number - 10, number - 5)))
            await node.settle()
            assert missed.seen() == list(range(number + 1))
            node.flush()
        assert node.cursors.unfenced == missed.removed
        position = node.dispatcher.partitions[0].position
        assert position is not None
        assert position.unfenced == missed.removed
        node.routes["new"] = msgspec.structs.replace(ROUTE, uid="new", start=(28,))
        missed.uids = ("r", "new")
        await node.crash()
        missed.write((1, 36), (2, 31))
        node.reports_away = False
        await node.settle()
        assert node.cursors.unfenced is None
        missed.write((1, 39), *((2, origin) for origin in range(32, 40)))
        await node.settle()
        assert (missed.seen(), missed.seen("new")) == (list(range(40)), list(range(28, 40)))
        await node.halt()

    run(story())


def test_a_point_whose_fence_is_still_to_come_loses_nothing() -> None:
    """The third generation counts from then on, although what the second one writes comes before its fence."""

    async def story() -> None:
        missed = Missed(ROUTE)
        missed.node.live = 3
        await missed.begin()
        missed.write((2, 7), (2, 8), LATE)
        await missed.node.settle()
        missed.write((2, 10), (2, 11))
        missed.node.matched.records.append(Written(9, (), 0, 3, fence=True))
        missed.write((3, 10), (2, 14), (3, 11), (3, 12), (3, 13), (3, 14))
        await missed.node.settle()
        assert missed.seen() == list(range(15))
        await missed.node.halt()

    run(story())


def test_a_fence_below_the_one_in_force_changes_nothing() -> None:
    """What is known of the log counts where the routers' notes are older."""
    cursors = PartitionCursors(0)
    cursors.fences = Fences(Fence(3, 7))
    cursors.jump(10, ["r"])
    cursors.found_fence(5)
    assert (cursors.fences.newest, cursors.unfenced) == (Fence(3, 7), None)


def test_a_route_that_is_behind_reads_events_until_the_fence_is_known() -> None:
    """It had read on its own before the tail missed anything, and there is a capacity of a few."""

    async def story() -> None:
        missed = Missed(msgspec.structs.replace(ROUTE, paused=True), msgspec.structs.replace(ROUTE, uid="other"))
        node = missed.node
        await missed.begin()
        missed.write(LATE)
        await node.settle()
        node.flush()
        assert (missed.seen(), missed.seen("other")) == ([], list(range(10)))
        await node.crash()
        missed.write(*((2, origin) for origin in range(7, 12)), (1, 14))
        node.routes["r"] = ROUTE
        node.dispatcher.apply(node.snapshot(3))
        await node.settle()
        missed.write(*((2, origin) for origin in range(12, 16)))
        await node.settle()
        assert (missed.seen(), missed.seen("other")) == (list(range(16)), list(range(16)))
        assert all(cursor.attached for cursor in node.cursors.cursors.values())
        await node.halt()

    run(story())


def test_where_the_log_reaches_further_back_than_the_events_late_records_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A route that was paused reads the matched events from their first on; the fence before it is no longer there, and
    the tail has passed another one since."""
    monkeypatch.setattr(dispatcher, "LOOK_AHEAD_RECORDS", 7)
    monkeypatch.setattr(partition, "RECORDS_PER_BOUND", 3)

    async def story() -> None:
        log = [Written(-1, (), 0, 1, fence=True), *(Written(origin, ("r",), origin, 1) for origin in range(5))]
        log += [Written(4, (), 5, 2, fence=True), *(Written(origin, ("r",), origin, 2) for origin in range(5, 20))]
        log += [Written(19, (), 20, 3, fence=True), *(Written(origin, ("r",), origin, 3) for origin in range(20, 30))]
        log[10:10] = [Written(17, ("r",), 17, 1), Written(18, ("r",), 18, 1)]
        events = Topic({}, [Written(origin, ("r",), origin) for origin in range(30)])
        paused = msgspec.structs.replace(ROUTE, paused=True)
        node = Node({"r": paused}, Topic({}, log), events, dict(LIMITS))
        await node.boot()
        await read_all(node)
        node.matched.first, node.events.first = 9, 25
        node.dispatcher.recent[0].clear()
        node.routes["r"] = ROUTE
        node.dispatcher.apply(node.snapshot(2))
        await node.settle()
        assert sorted(event for _, event in node.seen) == list(range(7, 30))
        assert node.reports.losses == [("r", 0, 6)]
        await node.halt()

    run(story())


def test_the_first_fence_of_a_log_shows_which_generation_counted_before() -> None:
    log = Topic({}, [Written(17, ("r",), 0, 1), Written(7, ("r",), 0, 2), Written(8, (), 0, 3, fence=True)])
    search = EdgeSearch(None)
    for offset in range(3):
        record = log.at(offset)
        assert record is not None
        search.add(record)
    assert search.found == Edge(0, 7, 2)


def test_a_log_that_is_read_again_from_behind_an_older_fence_is_read_as_if_it_was_missed() -> None:
    """A power loss has taken the newest fence, and retention the one before it."""

    async def story() -> None:
        log = [Written(-1, (), 0, 1, fence=True), *(Written(origin, ("r",), origin, 1) for origin in range(5))]
        log += [Written(4, (), 5, 2, fence=True), *(Written(origin, ("r",), origin, 2) for origin in range(5, 10))]
        log += [Written(9, (), 10, 3, fence=True), *(Written(origin, ("r",), origin, 3) for origin in range(10, 12))]
        events = Topic({}, [Written(origin, ("r",), origin) for origin in range(20)])
        node = Node({"r": ROUTE}, Topic({}, log), events, dict(LIMITS))
        await node.boot()
        await node.settle()
        node.flush()
        node.live, node.matched.first = 3, 8
        del node.matched.records[10:]
        await node.crash()
        node.matched.records += [Written(19, ("r",), 30, 1), Written(7, (), 31, 4, fence=True)]
        node.matched.records += [Written(origin, ("r",), origin + 30, 4) for origin in range(8, 20)]
        await node.settle()
        assert sorted(event for _, event in node.seen) == list(range(20))
        await node.halt()

    run(story())


def test_notes_of_older_and_newer_versions_are_read() -> None:
    class Older(msgspec.Struct, frozen=True):
        next: int
        origin: int = -1

    cursors = PartitionCursors(0, 5)
    cursors.jump(7, [])
    written = msgspec.json.encode(cursors.position)
    assert msgspec.json.decode(written, type=Older) == Older(5)
    assert msgspec.json.decode(written, type=TailPosition).unfenced == 7
    assert msgspec.json.decode(b'{"next":5,"origin":3,"at":1}', type=TailPosition).unfenced is msgspec.UNSET
