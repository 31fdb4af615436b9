"""Never two at work: whatever is frozen, cut off or ended, one that has lost a role stops before another begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.claims import ClaimRecord, RoleClaims
from penstock.kafka import claims
from penstock.kafka.claims import Claimant, Write
from tests.examples import examples

TICK = 0.25
MESSAGE_SECONDS = 10.0
"""After which a client of Kafka gives up a record that it could not write."""


@dataclass
class Kafka:
    """A topic that all of a test share."""

    log: list[tuple[str, ClaimRecord]] = field(default_factory=list)
    away: bool = False
    removed: set[int] = field(default_factory=set)
    """Offsets of records that are gone because there are newer ones with their keys."""

    def compact(self) -> None:
        """Leaves the newest record of each key."""
        newest = {key: offset for offset, (key, _) in enumerate(self.log)}
        self.removed = set(range(len(self.log))) - set(newest.values())


@dataclass
class Process:
    """A process that claims the role, with a clock of its own."""

    kafka: Kafka
    name: str
    clock: float
    frozen: bool = False
    cut_off: bool = False
    ended: str | None = None

    def __post_init__(self) -> None:
        self.claimant = Claimant("pipeline", self.name, self.clock)
        self._at = 0
        self._unwritten: list[tuple[float, Write]] = []

    @property
    def epoch(self) -> int | None:
        return None if self.ended or self.frozen else self.claimant.epoch

    def step(self) -> None:
        """A quarter of a second passes."""
        self.clock += TICK
        if self.frozen or self.ended:
            return
        reaches = not (self.cut_off or self.kafka.away)
        if reaches:
            self._read()
        if (why := self.claimant.why_lost(self.clock)) is not None:
            self.ended = why
            return
        self._unwritten += [(self.clock, write) for write in self.claimant.turn(self.clock)]
        if reaches:
            self._write()

    def wake(self) -> None:
        """It looks at the time before anything else; what its other threads do in that moment, epochs fence off."""
        was_frozen, self.frozen, self.cut_off = self.frozen, False, False
        if was_frozen:
            self.step()

    def release(self) -> None:
        self.kafka.log += [(write.key, write.record) for write in self.claimant.goodbye(self.clock)]
        self.ended = "was told to"

    def _read(self) -> None:
        for offset, (key, record) in enumerate(self.kafka.log[self._at :], self._at):
            if offset not in self.kafka.removed:
                self.claimant.read(key, offset, record, self.clock)
        self._at = len(self.kafka.log)
        self.claimant.caught_up(self.clock)

    def _write(self) -> None:
        young = [write for since, write in self._unwritten if self.clock - since < MESSAGE_SECONDS]
        self.kafka.log += [(write.key, write.record) for write in young]
        self._unwritten.clear()


@dataclass
class World:
    """Processes on different machines."""

    kafka: Kafka = field(default_factory=Kafka)
    processes: list[Process] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)

    def start(self, name: str, clock: float = 0.0) -> Process:
        self.processes.append(Process(self.kafka, name, clock))
        return self.processes[-1]

    def pass_by(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Lets time pass; how much did before the condition held. Looks after every step that one is at work."""
        for number in range(round(seconds / TICK)):
            for process in self.processes:
                process.step()
                at_work = [one.epoch for one in self.processes if one.epoch is not None]
                assert len(at_work) <= 1, [one.name for one in self.processes if one.epoch is not None]
                if at_work and at_work[0] not in self.epochs:
                    self.epochs.append(at_work[0])
            if until():
                return (number + 1) * TICK
        return seconds


def test_the_first_has_a_free_role_at_once_and_the_second_stands_by() -> None:
    world = World()
    first, second = world.start("a"), world.start("b", clock=5000)
    assert world.pass_by(5, lambda: first.epoch is not None) <= 1
    world.pass_by(60)
    assert (first.epoch is None, second.epoch) == (False, None)


def test_one_that_is_killed_is_followed_within_15_seconds_and_one_that_is_told_to_stop_at_once() -> None:
    world = World()
    first, second = world.start("a"), world.start("b", clock=-70)
    world.pass_by(20)
    first.ended = "was killed"
    assert claims.STOP_SECONDS < world.pass_by(30, lambda: second.epoch is not None) <= 15
    third = world.start("c")
    world.pass_by(5)
    second.release()
    assert world.pass_by(5, lambda: third.epoch is not None) <= 1


def test_one_that_was_frozen_ends_when_it_wakes() -> None:
    world = World()
    first, second = world.start("a"), world.start("b")
    world.pass_by(20)
    first.frozen = True
    world.pass_by(30)
    assert second.epoch is not None
    first.frozen = False
    world.pass_by(TICK)
    assert first.ended == "b has taken it"


def test_one_that_slept_while_nobody_took_its_role_ends_all_the_same() -> None:
    world = World()
    first = world.start("a")
    world.pass_by(20)
    first.frozen = first.cut_off = True
    world.pass_by(60)
    first.frozen = False
    world.pass_by(TICK)
    assert first.ended is not None
    assert first.ended.startswith("it could not be renewed for 6")


def test_one_that_stood_by_and_was_frozen_does_not_take_the_silence_for_the_holders() -> None:
    world = World()
    first, second = world.start("a"), world.start("b")
    world.pass_by(20)
    second.frozen = True
    world.pass_by(3600)
    second.frozen = False
    world.pass_by(60)
    assert first.epoch is not None


def test_a_kafka_that_replaces_a_broker_takes_the_role_from_nobody() -> None:
    world = World()
    first, second = world.start("a"), world.start("b", clock=17)
    world.pass_by(20)
    world.kafka.away = True
    world.pass_by(10.5)
    world.kafka.away = False
    world.pass_by(60)
    assert first.epoch is not None
    assert second.ended is None


def test_one_that_is_cut_off_stops_before_another_begins() -> None:
    world = World()
    first, second = world.start("a"), world.start("b", clock=99)
    world.pass_by(20)
    first.cut_off = True
    world.pass_by(15, lambda: second.epoch is not None)
    assert first.ended is not None
    assert second.epoch is not None


def test_a_process_of_the_same_name_takes_its_own_place_at_once() -> None:
    world = World()
    first = world.start("a")
    world.pass_by(20)
    first.ended = "was killed"
    again = world.start("a")
    assert world.pass_by(5, lambda: again.epoch is not None) <= 1


FAULT = st.tuples(
    st.sampled_from(["freeze", "cut", "kill", "stop", "kafka"]), st.integers(0, 2), st.floats(0.5, 40), st.floats(0, 25)
)


@examples(2)
@given(st.lists(FAULT, max_size=8), st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_whatever_happens_one_is_at_work_at_most_and_one_in_the_end(
    faults: list[tuple[str, int, float, float]], clocks: list[float]
) -> None:
    world = World()
    for number, clock in enumerate(clocks):
        world.start(f"first-{number}", clock)
    for what, whom, lasts, rest in faults:
        victim = [one for one in world.processes if one.ended is None][whom]
        match what:
            case "freeze":
                victim.frozen = True
            case "cut":
                victim.cut_off = True
            case "kill":
                victim.ended = "was killed"
            case "stop":
                victim.release()
            case _:
                world.kafka.away = True
        world.pass_by(lasts)
        world.kafka.away = False
        victim.wake()
        world.pass_by(rest)
        for _ in range(3 - sum(one.ended is None for one in world.processes)):
            world.start(f"again-{len(world.processes)}", clocks[0])
    world.pass_by(40, lambda: any(one.epoch is not None for one in world.processes))
    assert sum(one.epoch is not None for one in world.processes) == 1
    assert world.epochs == sorted(world.epochs)


@pytest.mark.parametrize("given_back", [True, False])
def test_one_that_was_cut_off_for_so_long_that_records_are_gone_still_knows_who_is_at_work(given_back: bool) -> None:
    world = World()
    first, away = world.start("a"), world.start("b")
    world.pass_by(20)
    away.cut_off = True
    world.pass_by(5)
    first.release()
    third = world.start("c")
    world.pass_by(20)
    assert third.epoch is not None
    if given_back:
        third.release()
    world.kafka.compact()
    away.wake()
    world.pass_by(60, lambda: away.epoch is not None)
    assert (away.epoch is not None, third.epoch is not None) == (given_back, not given_back)


@pytest.mark.parametrize("lost", [0, 1, 10, 79, 1000])
def test_a_power_loss_that_takes_the_end_of_the_topic_keeps_nobody_from_the_role(lost: int) -> None:
    world = World()
    world.start("a")
    world.start("b")
    world.pass_by(20)
    for process in world.processes:
        process.ended = "lost its power"
    del world.kafka.log[max(0, len(world.kafka.log) - lost) :]
    world.epochs.clear()
    after = [world.start(name) for name in ("c", "d")]
    assert world.pass_by(30, lambda: any(one.epoch is not None for one in after)) <= 15
    world.pass_by(60)
    assert len(world.epochs) == 1


def test_silence_of_a_stranger_is_waited_out_too() -> None:
    standby = claims.Standby("b", 0.0)
    ledger = RoleClaims(holder="a", epoch=3, last=9)
    for second in range(1, 14):
        standby.read_back(second - 0.1, second)
        assert not standby.may_take(ledger, second)
    standby.read_back(13.9, 14)
    assert standby.may_take(ledger, 14)
