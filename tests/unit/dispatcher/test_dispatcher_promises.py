"""The promises of the dispatcher on a model: random crashes, overlapping generations, repeats, slow routes, orders.

The model has the real partition, cursors and schedule; Kafka is a list, a subscriber is a list, a flush is a copy. What
is checked is what subscribers saw.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Cursor, Stage, encode, restore
from penstock.dispatcher.cursors.partition import NewDelivery, PartitionCursors
from penstock.dispatcher.matched.recent import Recent
from penstock.dispatcher.matched.record import KEY_HEADER, OVERHEAD_BYTES, Matched
from penstock.dispatcher.schedule.lanes import Job, Lane, Schedule

SUBSCRIBER = Endpoint("http://subscriber.example/")
OLD, KEYED, NEW = "old", "keyed", "new"
MAX_OUTSTANDING = 4
CHUNK = 3
RECENT = 5


def route(uid: str, **fields: object) -> Route:
    return msgspec.structs.replace(Route(uid, "Trigger", "ns", uid, "broker", subscriber=SUBSCRIBER), **fields)


ROUTES = {OLD: route(OLD), KEYED: route(KEYED, ordering="key"), NEW: route(NEW)}


@dataclass
class World:
    """The log of a partition, and what it was made from."""

    log: list[Matched]
    wanted: dict[str, set[int]]
    keys: dict[int, str]


def world_of(chance: random.Random) -> World:
    """Events with routes; generation 1 writes some, generation 2 (which knows `new`) starts anywhere before its end."""
    count = chance.randint(1, 25)
    routes = [{uid for uid in (OLD, KEYED, NEW) if chance.random() < 0.6} for _ in range(count)]
    keys = {origin: chance.choice("ab") for origin in range(count)}
    start_of_new = chance.randint(0, count)
    reached = chance.randint(start_of_new, count)
    begin = chance.randint(0, start_of_new)
    first = [(origin, routes[origin] - {NEW}) for origin in range(reached)]
    second = [(o, routes[o] if o >= start_of_new else routes[o] - {NEW}) for o in range(begin, count)]
    # Both write at once from where the second begins: any interleaving that keeps each one's own order.
    head, overlap = first[:begin], first[begin:]
    merged = list(head)
    while overlap or second:
        # A record of the second generation past the first one's end comes only after the first has stopped.
        if overlap and (not second or second[0][0] >= reached or chance.random() < 0.5):
            merged.append(overlap.pop(0))
        else:
            merged.append(second.pop(0))
    if chance.random() < 0.5:  # the router died and repeats a stretch
        again = chance.randint(0, count)
        merged += [(o, routes[o] if o >= start_of_new else routes[o] - {NEW}) for o in range(again, count)]
    log = [
        Matched(0, offset, 0, origin, routes=tuple(sorted(uids)), raw=[(KEY_HEADER, keys[origin].encode())], value=b"")
        for offset, (origin, uids) in enumerate(merged)
    ]
    wanted = {
        uid: {o for o in range(count) if uid in routes[o] and (uid != NEW or o >= start_of_new)} for uid in ROUTES
    }
    return World(log, wanted, keys)


@dataclass
class Node:
    """A task on the model; `saved` and `received` outlive it."""

    world: World
    saved: dict[str, bytes] = field(default_factory=dict)
    saved_tail: int = 0
    received: dict[str, list[int]] = field(default_factory=lambda: {uid: [] for uid in ROUTES})
    excuses: dict[str, list[int]] = field(default_factory=lambda: {uid: [] for uid in ROUTES})
    """What a crash may repeat: in flight, or finished since the last flush."""

    def __post_init__(self) -> None:
        self.boot()

    def boot(self) -> None:
        self.partition = PartitionCursors(0, self.saved_tail)
        self.recent = Recent(RECENT * OVERHEAD_BYTES)
        self.schedule = Schedule(max_in_flight=8)
        self.lanes = {uid: Lane(ROUTES[uid], 3) for uid in ROUTES}
        self.flying: list[Job] = []
        self.finished: list[Job] = []
        self.partition.restore(restore(uid, value, self.partition.changed) for uid, value in self.saved.items())
        for cursor in self.partition.cursors.values():
            for delivery in cursor.outstanding.values():
                self.schedule.add(Job(self.lanes[cursor.route], 0, cursor, delivery), 0.0)

    def room(self, cursor: Cursor) -> bool:
        return len(cursor.outstanding) < MAX_OUTSTANDING

    def may_catch_up(self, cursor: Cursor) -> bool:
        return len(cursor.outstanding) * 2 <= MAX_OUTSTANDING

    def begin(self, starts: list[NewDelivery]) -> None:
        for start in starts:
            self.schedule.add(Job(self.lanes[start.cursor.route], 0, start.cursor, start.delivery), 0.0)
        for cursor in self.partition.cursors.values():
            assert len(cursor.outstanding) <= MAX_OUTSTANDING  # P4: bounded

    def read_tail(self) -> None:
        assert self.partition.tail is not None
        if self.partition.tail < len(self.world.log):
            record = self.world.log[self.partition.tail]
            self.begin(list(self.partition.take(record, ROUTES, (), self.room)))
            self.recent.follow(record, self.partition.detached)

    def catch_up(self) -> None:
        begin = self.partition.next_chunk(ROUTES, self.may_catch_up)
        if begin is not None:
            assert self.partition.tail is not None
            end = min(self.partition.tail, begin + CHUNK)
            chunk = self.world.log[begin:end]
            kept = self.recent.chunk(begin, end)
            assert kept is None or (kept.begin, kept.end, kept.records) == (begin, end, chunk)  # no gap, whatever came
            self.begin(
                list(self.partition.catch_up(begin, end, chunk, ROUTES, room=self.room, may_catch_up=self.may_catch_up))
            )

    def send(self) -> None:
        job = self.schedule.pop()
        if job is not None:
            self.received[job.cursor.route].append(job.delivery.origin)
            self.flying.append(job)

    def answer(self, which: int, good: bool) -> None:
        if not self.flying:
            return
        job = self.flying.pop(which % len(self.flying))
        self.schedule.landed(job)
        if good:
            job.cursor.finish(job.delivery.origin)
            self.finished.append(job)
            self.schedule.ended(job, 0.0)
        else:
            job.delivery.attempt += 1
            job.cursor.touch()
            self.schedule.retry(job, 0.0)
            # The attempt was in flight once: that the same origin comes again is what a retry is.
            self.excuses[job.cursor.route].append(job.delivery.origin)

    def flush(self) -> None:
        for cursor in self.partition.changed:
            self.saved[cursor.route] = encode(cursor)
        self.partition.changed.clear()
        assert self.partition.tail is not None
        self.saved_tail = self.partition.tail
        self.finished.clear()

    def crash(self) -> None:
        for job in [*self.flying, *self.finished]:
            self.excuses[job.cursor.route].append(job.delivery.origin)
        self.boot()

    def settle(self, deaf: str | None = None) -> None:
        """Runs everything that can run; `deaf` never answers."""
        quiet = 0
        while quiet < 3:
            before = (self.partition.tail, sum(map(len, self.received.values())), len(self.flying), self.positions())
            self.read_tail()
            self.catch_up()
            self.send()
            talking = [index for index, job in enumerate(self.flying) if job.cursor.route != deaf]
            if talking:
                self.answer(talking[0], good=True)
            after = (self.partition.tail, sum(map(len, self.received.values())), len(self.flying), self.positions())
            quiet = quiet + 1 if before == after else 0

    def positions(self) -> list[tuple[int, int | None]]:
        return [(cursor.next, cursor.resume) for cursor in self.partition.cursors.values()]


Steps = list[str | tuple[int, bool]]

ACTIONS = ["tail", "tail", "catch up", "send", "send", "flush", "crash", "answer", "answer"]


@st.composite
def stories(draw: st.DrawFn) -> tuple[World, Steps]:
    """A world and what happens in it, from one seed: thousands of single draws would take seconds."""
    chance = random.Random(draw(st.integers(0, 2**64)))
    steps: Steps = [chance.choice(ACTIONS) for _ in range(chance.randint(0, 120))]
    answers = [(chance.randint(0, 7), chance.random() < 0.7) for _ in steps]
    return world_of(chance), [answer if step == "answer" else step for step, answer in zip(steps, answers, strict=True)]


def run(node: Node, steps: Steps) -> None:
    actions = {
        "tail": node.read_tail,
        "catch up": node.catch_up,
        "send": node.send,
        "flush": node.flush,
        "crash": node.crash,
    }
    for step in steps:
        if isinstance(step, tuple):
            node.answer(*step)
        else:
            actions[step]()


@settings(max_examples=300, deadline=None)
@given(stories())
def test_everything_arrives_and_only_what_was_under_way_arrives_again(story: tuple[World, Steps]) -> None:
    world, steps = story
    node = Node(world)
    run(node, steps)
    node.settle()
    for uid in ROUTES:
        assert set(node.received[uid]) == world.wanted[uid]  # P1, and P3 for `new`
        repeats = list(node.received[uid])
        for origin in set(repeats):
            repeats.remove(origin)
        for origin in repeats:  # P2
            assert origin in node.excuses[uid]
            node.excuses[uid].remove(origin)


@settings(max_examples=300, deadline=None)
@given(stories())
def test_keys_arrive_in_order(story: tuple[World, Steps]) -> None:
    world, steps = story
    node = Node(world)
    run(node, [step for step in steps if step != "crash"])
    node.settle()
    for key in "ab":
        seen = [origin for origin in node.received[KEYED] if world.keys[origin] == key]
        assert seen == sorted(seen)  # P5, retries included


@settings(max_examples=300, deadline=None)
@given(stories())
def test_keys_go_on_in_order_after_a_crash(story: tuple[World, Steps]) -> None:
    world, steps = story
    node = Node(world)
    run(node, steps)
    node.crash()
    before = {uid: len(seen) for uid, seen in node.received.items()}
    node.settle()
    for key in "ab":
        seen = [origin for origin in node.received[KEYED][before[KEYED] :] if world.keys[origin] == key]
        assert seen == sorted(seen)


@settings(max_examples=300, deadline=None)
@given(stories(), st.sampled_from([OLD, KEYED, NEW]))
def test_a_deaf_subscriber_changes_nothing_for_the_others(story: tuple[World, Steps], deaf: str) -> None:
    world, steps = story
    node = Node(world)
    run(node, steps)
    node.settle(deaf)
    for uid in ROUTES.keys() - {deaf}:
        assert set(node.received[uid]) == world.wanted[uid]  # P4


@settings(max_examples=300, deadline=None)
@given(stories())
def test_a_restored_delivery_keeps_its_attempts(story: tuple[World, Steps]) -> None:
    world, steps = story
    node = Node(world)
    run(node, [step for step in steps if step != "crash"])
    node.flush()
    before = {
        (uid, d.origin): (d.attempt, d.stage, d.due)
        for uid, cursor in node.partition.cursors.items()
        for d in cursor.outstanding.values()
    }
    node.crash()
    after = {
        (uid, d.origin): (d.attempt, d.stage, d.due)
        for uid, cursor in node.partition.cursors.items()
        for d in cursor.outstanding.values()
    }
    assert after == before
    assert all(stage is Stage.SUBSCRIBER for _, stage, _ in after.values())
