"""The promises of the dispatcher: random crashes, power losses, overlapping generations, repeats, slow routes, orders,
pauses that outlast what Kafka keeps of the matched events.

The real dispatcher is driven through random stories; Kafka is a list, subscribers answer as the story says, and time
passes only when everybody waits. What is checked is what subscribers saw.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors import partition
from penstock.dispatcher.dispatcher import UNKNOWN_SECONDS
from tests.examples import examples
from tests.unit.dispatcher.dispatcher_double import TARGET, Node, Topic, Written, wants
from tests.unit.dispatcher.virtual_time import run, turns

POLICY = Delivery(retry=1000, backoff_policy="linear", backoff_delay=0.3)
OLD, KEYED, NEW = "old", "keyed", "new"
MAX_OUTSTANDING = 4
LIMITS = {"max_outstanding": MAX_OUTSTANDING, "max_in_flight": 3, "catch_up_records": 3}


@pytest.fixture(autouse=True, scope="module")
def _near_places() -> Iterator[None]:
    """Logs are short here: a route that has read events finds a place to go on with matched ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "RECORDS_PER_BOUND", 3)
        yield


def route(uid: str, **fields: object) -> Route:
    made = Route(
        uid, "Trigger", "ns", uid, TARGET, attributes=wants(uid), subscriber=Endpoint("http://s/"), delivery=POLICY
    )
    return msgspec.structs.replace(made, **fields)


ROUTES = {OLD: route(OLD), KEYED: route(KEYED, ordering="key"), NEW: route(NEW)}


@dataclass
class World:
    """Events, the routes that each is for, and what the router makes of them."""

    routes: list[tuple[str, ...]]
    events: list[Written]
    """As they were accepted: a filter may want some of before its route."""
    start_of_new: int
    keys: dict[int, str]
    matched: list[Written]
    wanted: dict[str, set[int]]

    def node(self) -> Node:
        routes = {**ROUTES, NEW: route(NEW, start=(self.start_of_new,))}
        return Node(routes, Topic(self.keys, list(self.matched)), Topic(self.keys, self.events), dict(LIMITS))

    def route_again(self, matched: list[Written], now: int) -> None:
        """The router starts again, right after the newest origin that its topic still has."""
        begin = matched[-1].origin + 1 if matched else 0
        number = max((written.generation for written in matched), default=0) + 1
        matched += [Written(origin, self.routes[origin], now, number) for origin in range(begin, len(self.routes))]


def world_of(chance: random.Random, *, newcomer: bool) -> World:
    """Events with routes; generation 1 writes some, generation 2 (which knows `new`) starts anywhere before its end."""
    count = chance.randint(1, 40)
    routes = [{uid for uid in ROUTES if chance.random() < 0.6} for _ in range(count)]
    keys = {origin: chance.choice("ab") for origin in range(count)}
    start_of_new = chance.randint(0, count) if newcomer else 0
    reached = chance.randint(start_of_new, count)
    begin = chance.randint(0, start_of_new if newcomer else reached)
    events = [Written(origin, tuple(sorted(uids)), origin) for origin, uids in enumerate(routes)]
    routes = [uids if origin >= start_of_new else uids - {NEW} for origin, uids in enumerate(routes)]
    first = [(o, routes[o] - {NEW} if newcomer else routes[o], 1) for o in range(reached)]
    second = [(o, routes[o], 2) for o in range(begin, count)]
    # Both write at once from where the second begins: any interleaving that keeps each one's own order.
    merged, overlap = first[:begin], first[begin:]
    while overlap or second:
        # A record of the second generation past the first one's end comes only after the first has stopped.
        if overlap and (not second or second[0][0] >= reached or chance.random() < 0.5):
            merged.append(overlap.pop(0))
        else:
            merged.append(second.pop(0))
    if newcomer and chance.random() < 0.5:  # the router died and repeats a stretch
        merged += [(o, routes[o], 3) for o in range(chance.randint(0, count), count)]
    matched = [
        Written(origin, tuple(sorted(uids)), offset, generation)
        for offset, (origin, uids, generation) in enumerate(merged)
    ]
    wanted = {uid: {o for o in range(count) if uid in routes[o]} for uid in ROUTES}
    return World([tuple(sorted(uids)) for uids in routes], events, start_of_new, keys, matched, wanted)


Step = tuple[str, float, bool]
ACTIONS = ["tail", "tail", "tail", "answer", "answer", "answer", "answer", "flush", "crash", "time", "second"]


@dataclass
class Story:
    """A world and what happens in it."""

    world: World
    steps: list[Step]


def story_of(seed: int, *, actions: list[str], newcomer: bool) -> Story:
    chance = random.Random(seed)
    steps = [(chance.choice(actions), chance.random(), chance.random() < 0.7) for _ in range(chance.randint(0, 100))]
    return Story(world_of(chance, newcomer=newcomer), steps)


def stories(*extra: str, newcomer: bool = True) -> st.SearchStrategy[Story]:
    """All from one seed: thousands of single draws would take seconds."""
    actions = [*ACTIONS, *extra]
    return st.integers(0, 2**64).map(lambda seed: story_of(seed, actions=actions, newcomer=newcomer))


class Play:
    """Tells a story to a node, and keeps what excuses a second delivery."""

    def __init__(self, story: Story) -> None:
        self.story, self.node = story, story.world.node()
        self.excused: list[tuple[str, int]] = []
        """Seen and not yet confirmed: in flight, failed, or finished since the last flush."""
        self.unflushed: list[tuple[str, int]] = []

    async def tell(self) -> None:
        await self.node.boot()
        for action, chance, good in self.story.steps:
            await self.act(action, chance, good)
            for cursor in self.node.cursors.cursors.values():
                assert len(cursor.outstanding) <= MAX_OUTSTANDING

    async def act(self, action: str, chance: float, good: bool) -> None:
        node = self.node
        match action:
            case "tail":
                await node.read_tail()
            case "answer":
                await self.answer(int(chance * 8), good)
            case "flush":
                node.flush()
                self.unflushed.clear()
            case "crash":
                await node.halt()
                self.excuse()
                await node.boot()
            case "time":
                await asyncio.sleep(chance)
            case "second":
                node.second()
            case "pause":
                self.pause(chance, good)
            case "retention":
                self.remove(node.matched, chance, len(node.matched.records))
            case "age":
                self.remove(node.matched, chance, node.position)
            case "forget":
                self.remove(node.events, chance, len(node.events.records))
            case "power loss":
                await self.lose_power(chance)
            case "garbage":
                await self.find_garbage(chance)
            case "mend":
                self.mend()

    def pause(self, chance: float, again: bool) -> None:
        """A route is paused, or resumed."""
        uid = sorted(ROUTES)[int(chance * len(ROUTES))]
        changed = msgspec.structs.replace(self.node.routes[uid], paused=again)
        self.node.routes = {**self.node.routes, uid: changed}
        self.node.dispatcher.apply(self.node.snapshot(2))

    @staticmethod
    def remove(topic: Topic, chance: float, end: int) -> None:
        """Retention removes some more, perhaps everything up to there."""
        topic.first += int(chance * (max(end, topic.first) - topic.first + 1))

    def resume(self) -> None:
        """Every route is there, and none is paused any more."""
        self.node.unreadable = frozenset()
        self.node.routes = {uid: msgspec.structs.replace(one, paused=False) for uid, one in self.node.routes.items()}
        self.node.dispatcher.apply(self.node.snapshot(3))

    async def answer(self, which: int, good: bool) -> None:
        await turns()
        requests = self.node.subscribers.requests
        if requests:
            request = requests[which % len(requests)]
            (self.unflushed if good else self.excused).append((request.route, request.event))
            self.node.subscribers.answer(request, good=good)
        await turns()

    def excuse(self) -> None:
        flying = [(request.route, request.event) for request in self.node.subscribers.requests]
        self.excused += flying + self.unflushed
        self.unflushed.clear()

    async def lose_power(self, chance: float) -> None:
        """What was not on disk is gone: of the matched events, and of the cursors, each as much as chance has it."""
        node, cut = self.node, random.Random(chance)
        await node.halt()
        del node.matched.records[max(0, cut.randint(node.position - 12, node.position + 1)) :]
        node.matched.first = min(node.matched.first, len(node.matched.records))
        del node.flushes[max(0, len(node.flushes) - cut.choice([0, 0, 0, 1, 2, 10])) :]
        if node.flushes and cut.random() < 0.5:  # the end lies within a transaction
            node.flushes[-1] = node.flushes[-1][: cut.randint(0, len(node.flushes[-1]))]
        routes_first = cut.random() < 0.5
        now = 1000 + int(asyncio.get_running_loop().time() * 1000)
        await asyncio.sleep(0.01)
        if routes_first:
            self.story.world.route_again(node.matched.records, now)
            await node.boot()
        else:
            await node.boot()
            self.story.world.route_again(node.matched.records, now)

    async def find_garbage(self, chance: float) -> None:
        """A crash, after which the record of a route cannot be read for a while."""
        await self.node.halt()
        self.excuse()
        self.node.unreadable = frozenset({sorted(ROUTES)[int(chance * len(ROUTES))]})
        await self.node.boot()
        if int(chance * 100) % 2:
            await self.node.read_tail()
            await asyncio.sleep(UNKNOWN_SECONDS + 1)
            self.node.dispatcher.each_second()

    def mend(self) -> None:
        """The control plane has written the record anew."""
        self.node.unreadable = frozenset()
        self.node.dispatcher.apply(self.node.snapshot(2))

    def seen(self, uid: str) -> list[int]:
        return [event for route, event in self.node.seen if route == uid]


def play(story: Story, then: Callable[[Play], Awaitable[None]]) -> None:
    """Tells the story, and then looks at how things stand."""

    async def told() -> None:
        one = Play(story)
        await one.tell()
        await then(one)
        await one.node.halt()

    run(told())


@given(stories())
def test_everything_arrives_and_only_what_was_under_way_arrives_again(story: Story) -> None:
    async def check(one: Play) -> None:
        await one.node.settle()
        for uid in ROUTES:
            seen = one.seen(uid)
            assert set(seen) == story.world.wanted[uid]
            for origin in set(seen):
                seen.remove(origin)
            for origin in seen:
                assert (uid, origin) in one.excused
                one.excused.remove((uid, origin))
        assert one.node.reports.losses == []

    play(story, check)


@examples(4)
@given(stories("retention", "retention", "pause", "pause", "flush", "garbage", "mend"))
def test_a_pause_may_outlast_the_matched_events(story: Story) -> None:
    async def check(one: Play) -> None:
        one.resume()
        await one.node.settle()
        for uid in ROUTES:
            seen = one.seen(uid)
            assert set(seen) == story.world.wanted[uid]
            for origin in set(seen):
                seen.remove(origin)
            for origin in seen:
                assert (uid, origin) in one.excused
                one.excused.remove((uid, origin))
        assert one.node.reports.losses == []
        assert one.node.cursors.in_gap() == []

    play(story, check)


@examples(4)
@given(stories("retention", "forget", "pause", "pause", "flush"))
def test_what_is_gone_from_everywhere_is_reported_and_nothing_else(story: Story) -> None:
    async def check(one: Play) -> None:
        one.resume()
        await one.node.settle()
        for uid in ROUTES:
            lost = {
                origin
                for route, first, last in one.node.reports.losses
                for origin in range(first, last + 1)
                if route == uid
            }
            assert all(origin < one.node.events.first for origin in lost)
            assert story.world.wanted[uid] - lost <= set(one.seen(uid)) <= story.world.wanted[uid]

    play(story, check)


@examples(2)
@given(stories("age", "pause", "power loss", "flush", *["tail"] * 6, newcomer=False))
def test_neither_do_power_losses_and_retention_together_lose_anything(story: Story) -> None:
    """What is written anew after a power loss is young: it is not removed before it was read."""

    async def check(one: Play) -> None:
        one.resume()
        await one.node.settle()
        for uid in ROUTES:
            assert set(one.seen(uid)) == story.world.wanted[uid]
        assert one.node.reports.losses == []

    play(story, check)


@examples(2)
@given(stories("power loss", "flush", *["tail"] * 6, newcomer=False))
def test_a_power_loss_loses_nothing_and_gives_no_route_another_ones_event(story: Story) -> None:
    async def check(one: Play) -> None:
        await one.node.settle()
        for uid in ROUTES:
            assert set(one.seen(uid)) == story.world.wanted[uid]
        assert one.node.reports.losses == []

    play(story, check)


@examples(2)
@given(stories("garbage", "garbage", "mend", "flush"))
def test_a_route_whose_record_cannot_be_read_for_a_while_loses_nothing_and_repeats_nothing(story: Story) -> None:
    async def check(one: Play) -> None:
        one.mend()
        await one.node.settle()
        for uid in ROUTES:
            seen = one.seen(uid)
            assert set(seen) == story.world.wanted[uid]
            for origin in set(seen):
                seen.remove(origin)
            assert all((uid, origin) in one.excused for origin in seen)
        assert one.node.reports.losses == []

    play(story, check)


@given(stories("power loss", newcomer=False))
def test_keys_go_on_in_order_after_a_crash_or_a_power_loss(story: Story) -> None:
    async def check(one: Play) -> None:
        await one.node.crash()
        before = len(one.node.seen)
        await one.node.settle()
        for key in "ab":
            again = [event for uid, event in one.node.seen[before:] if uid == KEYED and story.world.keys[event] == key]
            assert again == sorted(again)

    play(story, check)


@given(stories())
def test_keys_arrive_in_order(story: Story) -> None:
    async def check(one: Play) -> None:
        await one.node.settle()
        for key in "ab":
            seen = [origin for origin in one.seen(KEYED) if story.world.keys[origin] == key]
            assert seen == sorted(seen)  # retries included

    play(Story(story.world, [step for step in story.steps if step[0] != "crash"]), check)


@examples(2)
@given(stories("retention", "retention", "pause", "pause"))
def test_keys_arrive_in_order_although_matched_events_are_gone(story: Story) -> None:
    async def check(one: Play) -> None:
        one.resume()
        await one.node.settle()
        for key in "ab":
            seen = [origin for origin in one.seen(KEYED) if story.world.keys[origin] == key]
            assert seen == sorted(seen)

    play(Story(story.world, [step for step in story.steps if step[0] != "crash"]), check)


@given(stories(), st.sampled_from([OLD, KEYED, NEW]))
def test_a_deaf_subscriber_changes_nothing_for_the_others(story: Story, deaf: str) -> None:
    async def check(one: Play) -> None:
        await one.node.settle(deaf)
        for uid in ROUTES.keys() - {deaf}:
            assert set(one.seen(uid)) == story.world.wanted[uid]

    play(story, check)


@given(stories())
def test_a_restored_delivery_keeps_its_attempts(story: Story) -> None:
    async def check(one: Play) -> None:
        def standing() -> dict[tuple[str, int], tuple[int, int, float]]:
            return {
                (uid, d.origin): (d.attempt, d.stage, d.due)
                for uid, cursor in one.node.cursors.cursors.items()
                for d in cursor.outstanding.values()
            }

        one.node.flush()
        before = standing()
        await one.node.crash()
        assert standing() == before

    play(story, check)
