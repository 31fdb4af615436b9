"""More partitions while routes keep the order of events by key: a model in which anything may happen at any time."""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Route
from penstock.engine.topics.sizing import PartitionProgress, keeps_order, obstacles
from tests.examples import examples

ORDERED = Route("o", "Trigger", "ns", "ordered", "t", ordering="key")
LOOSE = Route("l", "Trigger", "ns", "loose", "t")
ROUTES = {"o": ORDERED, "l": LOOSE}
KEYS = "abcd"

Event = tuple[str, int]
"""Its key, and its number among those of the key, in the order in which they were stored."""


class Installation:
    """An ordered route, and one without order whose subscriber may answer with an event of the same key."""

    def __init__(self) -> None:
        self.ingress = True
        self.stored: list[list[Event]] = [[], []]
        self.routed, self.taken = [0, 0], [0, 0]
        self.waiting: dict[str, list[list[Event]]] = {"o": [[], []], "l": [[], []]}
        self.delivered: dict[str, list[int]] = defaultdict(list)
        self._numbers: dict[str, int] = defaultdict(int)

    def store(self, key: str) -> None:
        self._numbers[key] += 1
        self.stored[crc32(key.encode()) % len(self.stored)].append((key, self._numbers[key]))

    def send(self, key: str) -> None:
        if self.ingress:
            self.store(key)

    def route(self, partition: int) -> None:
        self.routed[partition] = len(self.stored[partition])

    def take(self, partition: int) -> None:
        for uid in self.waiting:
            self.waiting[uid][partition] += self.stored[partition][self.taken[partition] : self.routed[partition]]
        self.taken[partition] = self.routed[partition]

    def settle_ordered(self, partition: int, key: str) -> None:
        """The oldest of a key in its partition; another partition is another task, which knows nothing of this one."""
        for event in self.waiting["o"][partition]:
            if event[0] == key:
                self.waiting["o"][partition].remove(event)
                self.delivered[key].append(event[1])
                return

    def settle_loose(self, partition: int, reply: bool) -> None:
        if self.waiting["l"][partition]:
            key, _ = self.waiting["l"][partition].pop()
            if reply:
                self.store(key)

    def partition_progress(self) -> list[PartitionProgress]:
        return [
            PartitionProgress(
                len(self.stored[n]),
                self.routed[n],
                self.routed[n],
                self.taken[n],
                {uid: len(events[n]) for uid, events in self.waiting.items()},
            )
            for n in range(len(self.stored))
        ]

    def obstacles(self) -> list[str]:
        return obstacles(ROUTES, ["ingress"] if self.ingress else [], self.partition_progress())

    def grow(self) -> None:
        for values in (self.routed, self.taken):
            values.extend([0] * len(self.stored))
        for lists in (self.stored, *self.waiting.values()):
            lists.extend([[] for _ in range(len(lists))])

    def finish(self) -> None:
        """Everything under way comes to its end, the newest partitions first."""
        for partition in reversed(range(len(self.stored))):
            self.route(partition)
            self.take(partition)
            while self.waiting["o"][partition]:
                self.settle_ordered(partition, self.waiting["o"][partition][0][0])


partitions = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(KEYS)),
    st.tuples(st.just("route"), partitions),
    st.tuples(st.just("take"), partitions),
    st.tuples(st.just("settle"), partitions, st.sampled_from(KEYS)),
    st.tuples(st.just("loose"), partitions, st.booleans()),
    st.sampled_from([("route all",), ("take all",), ("settle all loose",), ("settle all ordered",), ("drain",)]),
    st.tuples(st.just("grow"), st.booleans(), st.sampled_from(KEYS)),
)


def play(installation: Installation, step: tuple[object, ...]) -> None:
    width = len(installation.stored)
    match step:
        case "send", str(key):
            installation.send(key)
        case "route", int(partition):
            installation.route(partition % width)
        case "take", int(partition):
            installation.take(partition % width)
        case "settle", int(partition), str(key):
            installation.settle_ordered(partition % width, key)
        case "loose", int(partition), bool(reply):
            installation.settle_loose(partition % width, reply)
        case ("route all",):
            for partition in range(width):
                installation.route(partition)
        case ("settle all loose",):
            for partition in range(width):
                while installation.waiting["l"][partition]:
                    installation.settle_loose(partition, reply=False)
        case ("settle all ordered",):
            for partition in range(width):
                while installation.waiting["o"][partition]:
                    installation.settle_ordered(partition, installation.waiting["o"][partition][0][0])
        case ("take all",):
            for partition in range(width):
                installation.take(partition)
        case ("drain",):
            for partition in range(width):
                installation.route(partition)
                installation.take(partition)
                for key in KEYS:
                    installation.settle_ordered(partition, key)
                installation.settle_loose(partition, reply=False)
        case "grow", bool(stopped), str(key) if width < 4:
            installation.ingress = not stopped
            if not installation.obstacles():
                # Between the look and the deed, where there is an ingress, or something to answer to.
                installation.send(key)
                for partition in range(width):
                    installation.settle_loose(partition, reply=True)
                installation.grow()
            installation.ingress = True


@examples(8)
@given(st.lists(steps, max_size=60))
def test_no_event_overtakes_another_of_its_key_when_partitions_are_made(script: list[tuple[object, ...]]) -> None:
    installation = Installation()
    for step in script:
        play(installation, step)
    installation.finish()
    for key, numbers in installation.delivered.items():
        assert numbers == sorted(numbers), key


def test_without_the_rule_an_event_overtakes_another() -> None:
    """The model can tell: otherwise the property above would say nothing."""
    installation = Installation()
    for key in KEYS:
        installation.send(key)
    installation.grow()
    for key in KEYS:
        installation.send(key)
    installation.finish()
    assert any(numbers != sorted(numbers) for numbers in installation.delivered.values())


def test_partitions_can_be_made_when_all_is_settled() -> None:
    installation = Installation()
    for key in KEYS:
        installation.send(key)
    told = installation.obstacles()
    assert told == [
        "the ingress ingress is running: stop it",
        f"{len(KEYS)} events may not be routed yet: let the pipeline run for a few seconds",
    ]
    installation.ingress = False
    play(installation, ("drain",))
    assert installation.obstacles()[-1].startswith("Trigger ns/loose has ")
    for _ in KEYS:
        play(installation, ("drain",))
    assert installation.obstacles() == []


def test_routes_without_order_wait_for_nothing() -> None:
    assert not keeps_order([LOOSE])
    busy = [PartitionProgress(stored=9, routed=1, matched=5, taken=0, waiting={"l": 3})]
    assert obstacles({"l": LOOSE}, ["ingress"], busy) == []
    assert len(obstacles(ROUTES, ["ingress"], busy)) == 4


def test_a_route_that_is_gone_holds_nothing_up() -> None:
    assert obstacles(ROUTES, [], [PartitionProgress(1, 1, 1, 1, {"deleted": 4})]) == []
