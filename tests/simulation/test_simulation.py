"""The simulation: histories break no promise, a seed gives the same one again, and its parts are as they should be."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract import records, topics
from tests.simulation import simulate
from tests.simulation.sim_history import Outcome
from tests.simulation.sim_kafka import FencedProducer, Partition, Record, SimKafka
from tests.simulation.sim_machine import Machine, Process, Strand, Stuck, pause
from tests.simulation.sim_network import Attempt, Network
from tests.simulation.sim_oracle import AGAIN, FALSE_LOSS, LOST, ORDER, SHUT_OUT, STRANGER, Broken, Life, Oracle, Rule
from tests.simulation.sim_story import Story, make

COMMAND = [sys.executable, str(Path(simulate.__file__))]


def command(*arguments: str, hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONWARNINGS": "ignore"}
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)


# --- histories -------------------------------------------------------------------------------------------------------


def test_no_promise_is_broken() -> None:
    done = command("--seconds", "10", "--seed", "1")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_what_was_found_once_does_not_come_back() -> None:
    done = command("--found")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_a_seed_gives_the_same_history_in_every_process() -> None:
    first, again = command("--show", "--seed", "148"), command("--show", "--seed", "148", hash_seed=7)
    assert "digest" in first.stdout
    assert first.stdout == again.stdout


def test_a_story_is_shrunk_to_what_breaks_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    story = make(7)
    needed = {story.steps[3], story.steps[-1]}

    def happen(tried: Story) -> Outcome:
        broken = [Broken(LOST, "one")] if needed <= set(tried.steps) else [Broken(AGAIN, "another promise")]
        return Outcome(tried, broken, Counter(), 0, 0, 0.0, "", [])

    monkeypatch.setattr(simulate, "happen", happen)
    assert set(simulate.shrink(happen(story), lambda _: None).story.steps) == needed


# --- the machine -----------------------------------------------------------------------------------------------------


def run(story: Callable[[Machine], Any]) -> Machine:
    machine = Machine(0)
    machine.run(story(machine))
    return machine


def test_a_process_that_is_frozen_does_nothing_and_does_not_notice() -> None:
    seen: list[float] = []

    async def ticking() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(asyncio.get_running_loop().time() - 1000)

    async def story(machine: Machine) -> None:
        process = machine.start("one", ticking)
        await asyncio.sleep(2.5)
        process.freeze(10)
        await asyncio.sleep(11.2)

    run(story)
    assert seen == [1, 2, 12.5, 13.5]


def test_a_process_that_is_killed_does_nothing_any_more_in_any_thread() -> None:
    seen: list[str] = []

    async def main() -> None:
        def wait() -> None:
            pause(5)
            seen.append("a thread")

        Strand(wait, "thread").start()
        await asyncio.sleep(5)
        seen.append("a task")

    async def story(machine: Machine) -> None:
        ends: list[Process] = []
        process = machine.start("one", main)
        process.at_end.append(ends.append)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(10)
        assert ends == [process]

    assert run(story).defects == []
    assert seen == []


def test_what_waits_for_ever_is_noticed() -> None:
    async def story(machine: Machine) -> None:
        await asyncio.Event().wait()

    async def busy(machine: Machine) -> None:
        def again() -> None:
            machine.loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    for one in (story, busy):
        with pytest.raises(Stuck):
            run(one)


# --- Kafka -----------------------------------------------------------------------------------------------------------


MADE: list[Machine] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().loop.close()


def kafka(seed: int = 0) -> SimKafka:
    MADE.append(Machine(seed))
    return SimKafka(MADE[-1], 1, lambda name, asked: asked, embedded=True)


def values(partition: Partition) -> list[bytes | None]:
    return [record.value for record in partition.read(0)]


def test_a_power_loss_takes_the_end_of_what_is_not_flushed() -> None:
    lengths = set()
    for seed in range(40):
        brokers = kafka(seed=seed)
        for topic in (topics.EVENTS, topics.MATCHED):
            for number in range(20):
                brokers.append(brokers.partition(topic, 0), None, f"{number}".encode(), None)
        brokers.partition(topics.MATCHED, 0).on_disk = 5
        brokers.lose_power()
        assert len(values(brokers.partition(topics.EVENTS, 0))) == 20
        left = values(brokers.partition(topics.MATCHED, 0))
        assert left == [f"{number}".encode() for number in range(len(left))]
        lengths.add(len(left))
    assert min(lengths) == 5
    assert max(lengths) == 20
    assert len(lengths) > 5


def test_readers_see_a_transaction_when_it_has_ended_well() -> None:
    async def story(machine: Machine) -> None:
        brokers = SimKafka(machine, 1, lambda name, asked: asked, embedded=True)
        cursors = brokers.partition(topics.CURSORS, 0)
        epoch = brokers.open_transactions("one", 600.0, 0.0)
        brokers.append_in_transaction("one", epoch, cursors, b"a", b"1")
        assert values(cursors) == []
        brokers.end_transaction("one", epoch, commit=True)
        await asyncio.sleep(0.1)
        assert values(cursors) == [b"1"]
        brokers.append_in_transaction("one", epoch, cursors, b"a", b"2")
        brokers.open_transactions("one", 600.0, 0.0)
        assert values(cursors) == [b"1"]
        with pytest.raises(FencedProducer):
            brokers.append_in_transaction("one", epoch, cursors, b"a", b"3")

    run(story)


def test_a_transaction_that_is_forgotten_holds_back_what_comes_after_it_until_it_is_ended() -> None:
    brokers = kafka()
    routes = brokers.partition(topics.ROUTES, 0)
    epoch = brokers.open_transactions("one", 600.0, 0.0)
    brokers.append_in_transaction("one", epoch, routes, b"a", b"1")
    brokers.lose_power()
    brokers.append(routes, b"b", b"2", None)
    assert values(routes) == []
    brokers.abort_hanging(routes)
    assert values(routes) == [b"2"]


def test_compaction_keeps_the_newest_of_each_key_and_removes_nothing_for_what_may_be_lost() -> None:
    brokers = kafka()
    cursors = brokers.partition(topics.CURSORS, 0)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
        brokers.append(cursors, key, value, None)
    cursors.on_disk = 2
    brokers.compact()
    assert values(cursors) == [b"1", b"2", b"3"]
    cursors.on_disk = 3
    brokers.compact()
    assert values(cursors) == [b"2", b"3"]


# --- the oracle ------------------------------------------------------------------------------------------------------


def event(ident: str, offset: int, *, key: str = "k") -> Record:
    pairs = {"id": ident, "type": "a", "partitionkey": key}
    stored = [(f"ce_{name}", text.encode()) for name, text in pairs.items()]
    return Record(offset, 0, None, None, [*stored, (records.TARGET, b"broker")])


def attempt(ident: str, began: float, status: int = 200) -> Attempt:
    return Attempt("s0", ident, began, began + 0.1, status, "", noticed=True, task_began=0.0)


def oracle(*attempts: Attempt, accepted: str = "e0 e1", life: Life | None = None) -> Oracle:
    """One route that was Ready at second 1, and events that came in the seconds from 2 on."""
    brokers = kafka()
    partition = brokers.partition(topics.EVENTS, 0)
    network = Network(brokers.machine)
    for offset, ident in enumerate(accepted.split()):
        record = event(ident, offset)
        partition.append(record)
        brokers.archive.append((0, record, 2.0 + offset))
        network.sent[ident] = 2.0 + offset
    network.attempts += attempts
    return Oracle(brokers, network, [life or route()])


def route(types: str = "a", *, ordered: bool = True, retry: int = 1) -> Life:
    return Life("r0", "uid", "s0", 0.0, [Rule(types, 0.0, 1.0)], ordered, retry)


def broken(seen: Oracle) -> list[str]:
    return [one.promise for one in seen.verdict()]


WELL = (attempt("e0", 4.0), attempt("e1", 5.0))


def test_a_history_in_which_all_went_well_breaks_nothing() -> None:
    assert broken(oracle(*WELL)) == []
    assert broken(oracle(attempt("e0", 4.0, 503), attempt("e0", 4.5, 503), attempt("e1", 5.0))) == []
    assert broken(oracle(attempt("e0", 4.0, 400), attempt("e1", 5.0))) == []


def test_what_a_route_did_not_get_is_lost_unless_that_was_reported_and_is_true() -> None:
    assert broken(oracle(WELL[0])) == [LOST]
    assert broken(oracle(attempt("e0", 4.0), attempt("e1", 5.0, 503))) == [LOST]
    seen = oracle(WELL[0])
    seen.loss("uid", 0, 1, 1)
    assert broken(seen) == [FALSE_LOSS]
    gone = oracle(WELL[0])
    gone.kafka.partition(topics.EVENTS, 0).remove_before(2)
    gone.loss("uid", 0, 1, 1)
    assert broken(gone) == []


def test_what_was_accepted_must_be_stored() -> None:
    seen = oracle(*WELL)
    seen.accepted |= {"e1", "e2"}
    assert broken(seen) == [LOST]


def test_a_route_gets_nothing_that_no_filter_of_it_wants_or_that_is_older() -> None:
    assert broken(oracle(*WELL, life=route("b"))) == [STRANGER, STRANGER]
    late = Life("r0", "uid", "s0", 2.5, [Rule("a", 2.5, 2.6)], False, 1)
    assert broken(oracle(*WELL, life=late)) == [STRANGER]


def test_between_two_filters_either_may_count() -> None:
    either = Life("r0", "uid", "s0", 0.0, [Rule("a", 0.0, 1.0), Rule("b", 1.5)], False, 1)
    assert broken(oracle(WELL[1], life=either)) == []
    either.rules[1].ready = 2.5
    assert broken(oracle(WELL[0], life=either)) == []
    assert broken(oracle(WELL[1], life=either)) == [STRANGER]


def test_a_delivery_is_not_repeated_unless_a_task_knows_nothing_of_it() -> None:
    again = (*WELL, attempt("e1", 20.0))
    assert broken(oracle(*again)) == [AGAIN]
    seen = oracle(*again)
    seen.kafka.open_transactions("penstock-cursors-0", 600.0, 0.0)
    [load] = seen.kafka.loads["penstock-cursors-0"]
    object.__setattr__(load, "at", 10.0)
    assert broken(seen) == []
    object.__setattr__(load, "written", 9.5)
    assert broken(seen) == [AGAIN]


def test_events_of_a_key_come_one_after_the_other() -> None:
    assert broken(oracle(attempt("e1", 4.0), attempt("e0", 5.0))) == [ORDER]
    assert broken(oracle(attempt("e0", 4.0), attempt("e1", 4.05))) == [ORDER]
    assert broken(oracle(attempt("e1", 4.0), attempt("e0", 5.0), life=route(ordered=False))) == []


def test_a_live_generation_is_not_shut_out_by_a_fence_that_can_be_seen() -> None:
    seen = oracle(*WELL)
    matched = seen.kafka.partition(topics.MATCHED, 0)
    seen.shut_out(0, 5, 6, at_work=True)
    assert broken(seen) == []
    matched.append(Record(0, 0, None, None, [(records.FENCE, b"1"), (records.GENERATION, b"6")]))
    seen.shut_out(0, 5, 6, at_work=False)
    assert broken(seen) == []
    seen.shut_out(0, 5, 6, at_work=True)
    assert broken(seen) == [SHUT_OUT]
