"""Routes whose matched events retention has removed: they read the events, and lose what is gone from everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from penstock.contract.routes import Delivery, Endpoint, FormerMatch, Route
from penstock.contract.snapshot import Snapshot
from penstock.dispatcher import dispatcher
from penstock.dispatcher.cursors import partition
from penstock.dispatcher.cursors.cursor import Cursor
from penstock.dispatcher.cursors.partition import LostOrigins, PartitionCursors
from penstock.dispatcher.matched_record import Matched, of_event
from penstock.dispatcher.replay.archive import EventArchive
from penstock.dispatcher.replay.selection import EventMatcher, RouteSelection
from penstock.history.reader.table_events import GivenUpBy, Stretch
from penstock.history.schema.columns import HistoryProblem
from penstock.kafka.ranges import LogRecord
from tests.unit.dispatcher.dispatcher_double import TARGET, Node, Topic, Written, wants
from tests.unit.dispatcher.virtual_time import in_virtual_time, turns

COUNT = 40
LIMITS = {"catch_up_records": 5, "max_outstanding": 8, "max_in_flight": 4}


def route(uid: str = "r", **fields: Any) -> Route:
    made = Route(uid, "Trigger", "ns", uid, TARGET, attributes=wants(uid), subscriber=Endpoint("http://s/"))
    return msgspec.structs.replace(made, delivery=Delivery(retry=3), **fields)


def node_of(*routes: Route, count: int = COUNT, matched: list[Written] | None = None) -> Node:
    """Every event is for every route."""
    uids = tuple(one.uid for one in routes)
    events = [Written(origin, uids, origin) for origin in range(count)]
    log = [Written(one.origin, one.routes, one.at, 1) for one in events] if matched is None else matched
    return Node({one.uid: one for one in routes}, Topic({}, log), Topic({}, events), dict(LIMITS))


def change(node: Node, uid: str = "r", **fields: Any) -> None:
    node.routes[uid] = msgspec.structs.replace(node.routes[uid], **fields)
    node.dispatcher.apply(node.snapshot(2))


async def read_all(node: Node) -> None:
    while node.position < len(node.matched.records):
        await node.read_tail()


def remove(node: Node, matched: int, events: int = 0) -> None:
    """Retention leaves what comes from these offsets on, and nothing of the rest is in memory any more."""
    node.matched.first, node.events.first = matched, events
    node.dispatcher.recent[0].clear()


def seen(node: Node, uid: str = "r") -> list[int]:
    return [event for route, event in node.seen if route == uid]


@in_virtual_time
async def test_a_paused_route_gets_every_event_once_although_the_matched_ones_are_gone() -> None:
    node = node_of(route(ordering="key", max_in_flight=1), route("other"))
    await node.boot()
    for _ in range(7):
        await node.read_tail()
    await node.settle_requests()
    change(node, paused=True)
    await read_all(node)
    await node.settle_requests()
    remove(node, 30)
    change(node, paused=False)
    await node.settle()
    assert seen(node) == list(range(COUNT))
    assert sorted(seen(node, "other")) == list(range(COUNT))
    assert node.reports.losses == []
    assert node.cursors.cursors["r"].attached
    await node.halt()


@in_virtual_time
async def test_where_it_stands_in_the_gap_outlives_a_crash() -> None:
    node = node_of(route(paused=True))
    await node.boot()
    await read_all(node)
    remove(node, COUNT)
    change(node, paused=False)
    for _ in range(20):
        await node.answer(0, good=True)
    node.flush()
    written = msgspec.json.decode(node.table()["r/0"])
    done = len(seen(node)) - len(node.subscribers.requests)
    assert 5 < done < written["gap"] == written["next"] <= done + LIMITS["max_outstanding"]
    before = len(node.seen)
    await node.crash()
    await node.settle()
    assert sorted(seen(node)[before:]) == list(range(done, COUNT)), "nothing that was done, and all the rest"
    await node.halt()


@in_virtual_time
async def test_events_from_before_the_first_that_waits_are_not_looked_at_again() -> None:
    """The route has had what was for it among them, however long ago that was."""
    node = node_of(route())
    node.matched.records = [Written(o, ("r",) if o in (0, 30) else (), o, 1) for o in range(COUNT)]
    await node.boot()
    for _ in range(20):
        await node.read_tail()
    await node.settle_requests()
    change(node, paused=True)
    await read_all(node)
    remove(node, COUNT)
    change(node, paused=False)
    await node.settle()
    assert min(node.events.begins) == 30
    assert seen(node) == [0, *range(30, COUNT)], "the filter wants all, and the router said otherwise"
    await node.halt()


@in_virtual_time
async def test_what_was_delivered_from_the_gap_and_failed_is_read_again_where_it_is() -> None:
    """It has no place among the matched events."""
    node = node_of(route(paused=True), count=3)
    await node.boot()
    await read_all(node)
    remove(node, 3)
    change(node, paused=False)
    await turns(20)
    node.flush()
    await node.crash()
    asked = node.matched.reads
    await node.settle()
    assert sorted(set(seen(node))) == [0, 1, 2]
    assert node.matched.reads == asked
    await node.halt()


@in_virtual_time
async def test_events_from_before_the_route_and_of_others_stay_out() -> None:
    node = node_of(route(paused=True, start=(12,)), route("other"))
    node.events.records = [Written(o, ("other",) if o % 3 else ("other", "r"), o) for o in range(COUNT)]
    node.matched.records = [
        Written(one.origin, tuple(u for u in one.routes if u != "r" or one.origin >= 12), one.at, 1)
        for one in node.events.records
    ]
    await node.boot()
    await read_all(node)
    await node.settle("r")
    remove(node, 36)
    node.cursors.cursors["r"].waits = -1  # as a former version left it
    change(node, paused=False)
    await node.settle()
    assert sorted(seen(node)) == [origin for origin in range(12, COUNT) if origin % 3 == 0]
    await node.halt()


@in_virtual_time
async def test_each_event_is_judged_by_the_filter_of_its_time() -> None:
    node = node_of(route(paused=True))
    node.events.records = [Written(o, ("old",) if o % 2 else ("r",), o) for o in range(COUNT)]
    node.matched.records = [Written(0, ("r",), 0), *[Written(o, (), o) for o in range(1, COUNT)]]
    await node.boot()
    await read_all(node)
    remove(node, COUNT)
    former = FormerMatch(TARGET, wants("old"), until=(11,)), FormerMatch("another broker", until=(21,))
    change(node, paused=False, former=former)
    await node.settle()
    assert sorted(seen(node)) == [1, 3, 5, 7, 9, *range(22, COUNT, 2)]
    await node.halt()


@in_virtual_time
async def test_it_goes_on_with_matched_events_as_soon_as_that_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then the router's word counts again: the filter of this route would take more."""
    monkeypatch.setattr(partition, "RECORDS_PER_BOUND", 10)
    node = node_of(route(paused=True))
    node.matched.records = [Written(o, ("r",) if o < 30 or o % 2 else (), o, 1) for o in range(COUNT)]
    await node.boot()
    await read_all(node)
    remove(node, 15)
    change(node, paused=False)
    await node.settle()
    assert sorted(seen(node)) == [*range(30), *range(31, COUNT, 2)]
    await node.halt()


@in_virtual_time
async def test_the_fence_in_force_counts_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "RECORDS_PER_BOUND", 10)
    node = node_of(route(paused=True))
    log = [Written(o, ("r",), o, 1) for o in range(10)]
    log.append(Written(9, (), 9, 2, fence=True))
    log += [Written(o, ("r",), o, 2) for o in range(10, COUNT)]
    log.insert(24, Written(35, ("r",), 99, 1))
    node.matched.records = log
    await node.boot()
    await read_all(node)
    remove(node, 18)
    change(node, paused=False)
    await node.settle()
    assert sorted(set(seen(node))) == list(range(COUNT))
    assert node.reports.losses == []
    await node.halt()


@in_virtual_time
async def test_what_retention_takes_once_more_is_read_from_the_events_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "RECORDS_PER_BOUND", 10)
    node = node_of(route(paused=True))
    await node.boot()
    await read_all(node)
    change(node, paused=False)
    while node.matched.first < COUNT:
        remove(node, min(COUNT, node.matched.first + 3))
        for _ in range(3):
            await node.answer(0, good=True)
    await node.settle()
    assert sorted(seen(node)) == list(range(COUNT))
    await node.halt()


@in_virtual_time
async def test_what_is_gone_from_everywhere_is_reported_once_and_as_a_whole() -> None:
    node = node_of(route(paused=True), route("behind", paused=True, start=(9,)))
    await node.boot()
    await read_all(node)
    remove(node, 35, 30)
    for uid in node.routes:
        change(node, uid, paused=False)
    await node.settle()
    assert sorted(node.reports.losses) == [("behind", 9, 29), ("r", 0, 29)]
    assert sorted(seen(node)) == sorted(seen(node, "behind")) == list(range(30, COUNT))
    await node.halt()


@in_virtual_time
async def test_matched_events_that_outlast_the_events_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most events match nothing here, so that they fill their topic faster than the matched ones do."""
    monkeypatch.setattr(dispatcher, "LOOK_AHEAD_RECORDS", 4)
    node = node_of(route(paused=True))
    node.matched.records = [Written(o, ("r",), o, 1) for o in range(0, COUNT, 2)]
    await node.boot()
    await read_all(node)
    remove(node, 5, 30)
    change(node, paused=False)
    await node.settle()
    assert node.reports.losses == [("r", 0, 9)]
    assert sorted(seen(node)) == list(range(10, COUNT, 2))
    await node.halt()


@in_virtual_time
async def test_an_overlap_of_generations_at_the_edge_hides_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left begins with 16 of the first generation; the second one repeats 12 to 15 only after that, and an
    older event that comes after a newer one counts as a repeat."""
    monkeypatch.setattr(dispatcher, "LOOK_AHEAD_RECORDS", 8)
    node = node_of(route(paused=True))
    first = [Written(o, ("r",), o, 1) for o in range(20)]
    second = [Written(o, ("r",), o, 2) for o in range(10, COUNT)]
    node.matched.records = [*first[:14], *second[:2], *first[14:18], *second[2:6], *first[18:], *second[6:]]
    await node.boot()
    await read_all(node)
    remove(node, 18, 30)
    change(node, paused=False)
    await node.settle()
    assert node.reports.losses == [("r", 0, 15)]
    assert sorted(seen(node)) == list(range(16, COUNT))
    await node.halt()


@dataclass
class Table:
    """The history: what Kafka had until it was written."""

    events: Topic
    stretches: list[Stretch]
    problem: str = ""
    reads: list[tuple[int, int]] = field(default_factory=list)

    def stretch(self, _: int, offset: int, *, newest: bool = False) -> Stretch | None:
        if self.problem:
            raise HistoryProblem(self.problem)
        return next((Stretch(max(offset, one.first), one.end) for one in self.stretches if one.end > offset), None)

    def read(self, number: int, begin: int, end: int) -> list[LogRecord]:
        self.reads.append((begin, end))
        whole = Topic(self.events.keys, self.events.records)
        found = [record for offset in range(begin, end) if (record := whole.at(offset)) is not None]
        return [LogRecord(number, one.offset, one.at, None, list(one.fields.items()), one.value) for one in found]

    def lasting(self, since: float) -> dict[int, tuple[Stretch, ...]]:
        return {0: tuple(self.stretches)}

    def given_up(self, _: int, __: GivenUpBy) -> list[int]:
        return []


@pytest.fixture
def with_history() -> Iterator[tuple[Node, Table]]:
    node = node_of(route(paused=True))
    table = Table(node.events, [Stretch(0, 25)])
    node.history = kept = EventArchive(node.events, table, strict=True)
    yield node, table
    kept.close()


async def test_what_kafka_has_forgotten_comes_from_the_history(with_history: tuple[Node, Table]) -> None:
    node, _ = with_history
    await node.boot()
    await read_all(node)
    remove(node, COUNT, 20)
    change(node, paused=False)
    while len(set(seen(node))) < COUNT:
        await node.settle_requests()
        await asyncio.sleep(0.001)
    assert sorted(seen(node)) == list(range(COUNT))
    assert node.reports.losses == []
    await node.halt()


async def test_what_the_history_lacks_is_reported_exactly(with_history: tuple[Node, Table]) -> None:
    node, table = with_history
    table.stretches = [Stretch(3, 8), Stretch(13, 18)]
    await node.boot()
    await read_all(node)
    remove(node, COUNT, 20)
    change(node, paused=False)
    while len(set(seen(node))) < COUNT - 3 - 5 - 2:
        await node.settle_requests()
        await asyncio.sleep(0.001)
    assert node.reports.losses == [("r", 0, 2), ("r", 8, 12), ("r", 18, 19)]
    await node.halt()


@in_virtual_time
async def test_a_history_that_cannot_be_read_holds_the_route_and_costs_no_event() -> None:
    node = node_of(route(paused=True), route("other"))
    await node.boot()
    await read_all(node)
    await node.settle("r")
    remove(node, COUNT)
    node.events.away = "S3 does not answer"
    change(node, paused=False)
    await asyncio.sleep(30)
    node.second()
    assert seen(node) == []
    assert node.reports.losses == []
    told = next(one for one in reversed(node.reports.standings) if one.route == "r")
    assert "the history cannot be read" in told.reason
    assert "S3 does not answer" in told.reason
    node.events.away = ""
    await node.settle()
    assert sorted(seen(node)) == list(range(COUNT))
    node.second()
    assert not next(one for one in reversed(node.reports.standings) if one.route == "r").failures
    await node.halt()


@in_virtual_time
async def test_a_delivery_whose_event_may_be_in_an_unreadable_history_waits_for_it() -> None:
    node = node_of(route(), count=1)
    await node.boot()
    await read_all(node)
    node.flush()
    node.matched.first, node.events.away = 1, "S3 does not answer"
    await node.crash()
    await asyncio.sleep(30)
    assert (len(node.seen), node.reports.losses) == (1, [])
    node.events.away = ""
    await node.settle()
    assert len(node.seen) == 2
    await node.halt()


@pytest.mark.parametrize("left", [COUNT - 1, COUNT])
@in_virtual_time
async def test_a_tail_that_missed_records_costs_no_route_an_event(left: int) -> None:
    """Also where nothing is left that would tell of it, and for routes that had nothing before."""
    node = node_of(route(), route("fresh", start=(10,)), route("paused", paused=True))
    node.matched.records[:5] = [Written(o, ("r", "paused"), o, 1) for o in range(5)]
    await node.boot()
    for _ in range(5):
        await node.read_tail()
    await node.settle_requests()
    remove(node, left)
    await node.settle()
    change(node, "paused", paused=False)
    await node.settle()
    assert sorted(seen(node)) == sorted(seen(node, "paused")) == list(range(COUNT))
    assert sorted(seen(node, "fresh")) == list(range(10, COUNT))
    assert node.reports.losses == []
    await node.halt()


@in_virtual_time
async def test_losses_are_reported_for_routes_that_had_nothing_before() -> None:
    node = node_of(route(), route("fresh", start=(10,)), route("late", start=(39,)))
    node.matched.records[:5] = [Written(o, ("r",), o, 1) for o in range(5)]
    await node.boot()
    for _ in range(5):
        await node.read_tail()
    await node.settle_requests()
    node.matched.first, node.events.first = COUNT - 1, 20
    await node.settle()
    assert sorted(node.reports.losses) == [("fresh", 10, 19), ("r", 5, 19)]
    await node.halt()


@in_virtual_time
async def test_a_route_that_becomes_known_after_the_tail_has_missed_records_gets_them() -> None:
    node = node_of(route(), route("new", start=(8,)))
    new = node.routes.pop("new")
    await node.boot()
    remove(node, 30)
    await node.settle()
    node.routes["new"] = new
    node.dispatcher.apply(node.snapshot(2))
    await node.settle()
    assert sorted(seen(node, "new")) == list(range(8, COUNT))
    await node.halt()


@in_virtual_time
async def test_events_that_are_accepted_while_the_gap_is_read_are_neither_missed_nor_doubled() -> None:
    node = node_of(route(paused=True))
    await node.boot()
    await read_all(node)
    remove(node, COUNT)
    change(node, paused=False)
    for origin in range(COUNT, COUNT + 30):
        node.events.records.append(Written(origin, ("r",), origin))
        await node.answer(0, good=True)
        node.matched.records.append(Written(origin, ("r",), origin, 1))
        await node.read_tail()
    await node.settle()
    assert sorted(seen(node)) == list(range(COUNT + 30))
    await node.halt()


@in_virtual_time
async def test_a_route_that_goes_while_it_reads_events_leaves_nothing() -> None:
    node = node_of(route(paused=True))
    await node.boot()
    await read_all(node)
    remove(node, COUNT)
    change(node, paused=False)
    await turns(10)
    node.dispatcher.apply(Snapshot(3))
    await node.settle()
    node.flush()
    assert set(node.table()) == {"tail/0"}
    assert node.dispatcher.outstanding == 0
    await node.halt()


@in_virtual_time
async def test_a_route_that_comes_to_a_gap_while_others_read_it_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before it was known that it reads events, too, is read again for it."""
    monkeypatch.setattr(dispatcher, "MATCHES_AT_ONCE", 1)
    node = node_of(route(), route("late", paused=True, start=(25,)))
    uids = ("r",), ("r", "late")
    node.matched.records = [Written(o, uids[o >= 25], o, 1) for o in range(COUNT)]
    node.limits = {"catch_up_records": 30, "max_outstanding": 100, "max_in_flight": 100}
    await node.boot()
    for _ in range(2):
        await node.read_tail()
    await node.settle_requests()
    change(node, paused=True)
    await read_all(node)
    remove(node, 20)
    change(node, paused=False)
    while not 5 < (node.cursors.cursors["r"].gap or 0) < 20:
        await turns(1)
    assert node.cursors.cursors["late"].gap is None
    remove(node, COUNT)
    change(node, "late", paused=False)
    await node.settle()
    assert sorted(seen(node, "late")) == list(range(25, COUNT))
    assert sorted(seen(node)) == list(range(COUNT))
    await node.halt()


def test_a_cursor_of_a_former_version_is_read() -> None:
    """It says neither where the route waits nor that it reads events, and the tail not which origin was the newest."""
    node = node_of(route())
    node.flushes = []
    cursors = PartitionCursors(0)
    cursors.restore(partition.TailPosition(30, 29), [Cursor("r", 7, 10, cursors.changed)])
    cursors.removed_before(20)
    assert cursors.next_gap(node.routes, lambda _: True) == (7, None)
    cursors.events_ended(40)
    assert cursors.next_gap(node.routes, lambda _: True) == (7, 40)


def test_a_route_whose_record_cannot_be_read_keeps_its_place_in_the_gap() -> None:
    cursors = PartitionCursors(0)
    cursors.jump(5, ["r"])
    cursors.found_fence(0)
    cursors.events_ended(9)
    assert cursors.next_gap({}, lambda _: True) is None
    assert cursors.lose(0, 4, {}) == []
    known = {"r": route(start=(2,))}
    assert cursors.next_gap(known, lambda _: True) == (2, 9)
    assert cursors.lose(0, 4, known) == [LostOrigins("r", 2, 3)]


FILTERS: list[dict[str, Any]] = [
    {},
    {"attributes": {"type": "even"}},
    {"attributes": {"type": "odd", "source": "/s"}},
    {"attributes": {"missing": ""}},
    {"filters": [{"any": [{"exact": {"type": "odd"}}, {"prefix": {"id": "2"}}]}]},
    {"filters": [{"exact": {"type": "even"}}, {"not": {"suffix": {"id": "0"}}}]},
    {"filters": [{"cesql": "type = 'odd' AND id > 5"}]},
    {"attributes": {"datacontenttype": "application/json"}},
    {"target": "another", "attributes": {"type": "even"}},
    {"former": (FormerMatch(TARGET, {"type": "odd"}, until=(5,)),), "attributes": {"type": "even"}},
]


def test_many_routes_are_matched_as_each_alone() -> None:
    def event(origin: int) -> Matched:
        kind = "odd" if origin % 2 else "even"
        fields = {"ce_id": str(origin), "ce_source": "/s", "ce_type": kind, "ce_specversion": "1.0"}
        fields |= {"penstock_target": TARGET, "content-type": "application/json" if origin % 3 else "text/plain"}
        return of_event(0, origin, 0, [(name, value.encode()) for name, value in fields.items()], b"")

    routes = {
        f"{number}{copy}": msgspec.structs.replace(route(f"{number}{copy}"), **{"attributes": {}, **fields})
        for number, fields in enumerate(FILTERS)
        for copy in range(3)
    }
    matcher = EventMatcher(0)
    for served in (routes, dict(list(routes.items())[::2]), {}, routes):
        matcher.serve(served)
        for origin in range(25):
            alone = {uid for uid, one in served.items() if RouteSelection(one, 0).wants(event(origin))}
            assert set(matcher.wanting(event(origin))) == alone
    assert matcher.unindexed == 18, "those of six filters that need no attribute to be this or that"
