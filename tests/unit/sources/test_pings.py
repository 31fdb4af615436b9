"""PingSources that run: which ticks are due, what is noted, and that each tick is fired once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.events.event import CloudEvent
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.pingsource import PingSource
from penstock.resources.schedules import parse
from penstock.sources import deliveries
from penstock.sources import pings as runner_module
from penstock.sources.deliveries import NotAccepted
from penstock.sources.pings import Agenda, Ping, PingRunner, event_at
from penstock.sources.ticks import MOST_COUNTED, Changes, Missed, Noted, TickNotes, due_between
from tests.waiting import until

NOON = 1_767_268_800
"""2026-01-01T12:00:00Z."""
MINUTELY = parse("* * * * *")
SINK = ResolvedAddress("http://sink")


def ping(uid: str = "u1", schedule: str = "* * * * *", sink: ResolvedAddress = SINK, **spec: Any) -> Ping:
    obj = {"metadata": {"name": "p", "namespace": "ns", "uid": uid}, "spec": {"schedule": schedule, **spec}}
    return Ping(PingSource.read(obj), parse(schedule), sink)


class Sink:
    """Takes events, or refuses them."""

    def __init__(self) -> None:
        self.taken: list[CloudEvent] = []
        self.refusals = 0
        self.refuses = False

    async def send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            self.refusals += 1
            raise NotAccepted("503")
        assert namespace == "ns"
        self.taken.append(event)

    @property
    def times(self) -> list[str]:
        return [event.attributes["time"][11:19] for event in self.taken]


class World:
    """A clock, a sink, and a process of sources that can be killed and started again."""

    def __init__(self, path: Path) -> None:
        self.now = float(NOON)
        self.sink = Sink()
        self.missed: list[Missed] = []
        self.told: list[str | None] = []
        self._path = path
        self._task: asyncio.Task[None] | None = None

    def trouble_changed(self, uid: str) -> None:
        self.told.append(self.runner.trouble(uid))

    def ticks_missed(self, uid: str, missed: Missed) -> None:
        self.missed.append(missed)

    def start(self, *pings: Ping) -> None:
        self.runner = PingRunner(lambda: TickNotes(self._path / "sources.db"), self.sink.send, self, lambda: self.now)
        for one in pings:
            self.runner.put(one)
        self._task = asyncio.create_task(self.runner.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def pass_time(self, seconds: float) -> None:
        """The clock goes on, and the loop has looked at it."""
        self.now += seconds
        self.runner._wake.set()
        await until(self._settled, every=0.002)

    def _settled(self) -> bool:
        """Nothing is due, and everything is written down."""
        writing = self.runner._writing
        return (
            (self.runner._agenda.first() or self.now + 1) > self.now
            and not self.runner._unwritten
            and (writing is None or writing.done())
        )


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(runner_module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(deliveries, "LONGEST_PAUSE_SECONDS", 0.001)
    one = World(tmp_path)
    yield one
    await one.stop()


def test_ticks_of_the_last_minute_are_fired_and_older_ones_missed() -> None:
    assert due_between(MINUTELY, NOON - 1, NOON).fire == (NOON,)
    assert due_between(MINUTELY, NOON - 40, NOON + 2).fire == (NOON,)
    due = due_between(MINUTELY, NOON - 3600, NOON + 30)
    assert due.fire == (NOON,)
    assert due.missed == Missed(59, NOON - 3540, NOON - 60)
    assert str(due.missed) == (
        "59 ticks from 2026-01-01T11:01:00Z to 2026-01-01T11:59:00Z were missed: nothing ran then"
    )


def test_years_of_missed_seconds_are_not_counted_one_by_one() -> None:
    due = due_between(parse("* * * * * *"), 0, NOON)
    assert due.missed is not None
    assert due.missed.count == MOST_COUNTED + 1
    assert len(due.fire) == 61
    assert "more than 1000 ticks" in str(due.missed)


def test_the_agenda_knows_the_first_and_forgets_what_was_replaced() -> None:
    agenda = Agenda()
    agenda.put("a", 10)
    agenda.put("b", 5)
    agenda.put("b", 20)
    assert agenda.first() == 10
    assert agenda.take(9) == []
    assert agenda.take(20) == ["a", "b"]
    agenda.put("a", 30)
    agenda.put("a", None)
    assert agenda.first() is None


def test_notes_survive_and_forget(tmp_path: Path) -> None:
    notes = TickNotes(tmp_path / "notes")
    notes.write(Changes(settled={"a": Noted("x", 5, (4, 5)), "b": Noted("y", 7)}))
    notes.write(Changes(accepted=[("a", 4)], settled={"b": Noted("y", 8, (8,))}))
    notes.close()
    again = TickNotes(tmp_path / "notes")
    assert again.load() == {"a": Noted("x", 5, (5,)), "b": Noted("y", 8, (8,))}
    again.write(Changes(forgotten=["a"]))
    assert set(again.load()) == {"b"}
    again.close()


def test_the_same_tick_is_always_the_same_event() -> None:
    one = ping(data='{"a":1}', contentType="application/json", ceOverrides={"extensions": {"Shop": "north"}})
    event = event_at(one, NOON)
    assert event == event_at(one, NOON)
    assert event.id != event_at(one, NOON + 60).id
    assert event.id != event_at(ping("u2"), NOON).id
    assert dict(event.attributes) == {
        "specversion": "1.0",
        "id": event.id,
        "source": "/apis/v1/namespaces/ns/pingsources/p",
        "type": "dev.knative.sources.ping",
        "time": "2026-01-01T12:00:00Z",
        "datacontenttype": "application/json",
        "shop": "north",
    }
    assert event.data == b'{"a":1}'


async def test_every_tick_is_fired_once(world: World) -> None:
    world.start(ping())
    await world.pass_time(30)
    assert world.sink.taken == []
    for _ in range(3):
        await world.pass_time(60)
    await until(lambda: len(world.sink.taken) == 3, every=0.002)
    assert world.sink.times == ["12:01:00", "12:02:00", "12:03:00"]


async def test_a_restart_neither_repeats_nor_skips_a_tick(world: World) -> None:
    world.start(ping())
    await world.pass_time(60)
    await until(lambda: len(world.sink.taken) == 1, every=0.002)
    await world.stop()
    world.now += 65
    world.start(ping())
    await until(lambda: len(world.sink.taken) == 2, every=0.002)
    await world.pass_time(1)
    assert world.sink.times == ["12:01:00", "12:02:00"]
    assert world.missed == []


async def test_ticks_of_a_long_absence_are_told_not_fired(world: World) -> None:
    world.start(ping(schedule="0 * * * *"))
    await world.pass_time(1)
    await world.stop()
    world.now += 3 * 3600 + 1800
    world.start(ping(schedule="0 * * * *"))
    await until(lambda: bool(world.missed), every=0.002)
    assert world.missed == [Missed(3, NOON + 3600, NOON + 3 * 3600)]
    assert world.sink.taken == []


async def test_a_tick_waits_for_its_sink_even_over_a_restart(world: World) -> None:
    world.sink.refuses = True
    world.start(ping())
    await world.pass_time(60)
    await until(lambda: world.sink.refusals > 3, every=0.002)
    assert (world.runner.trouble("u1") or "").endswith("503")
    await world.stop()
    world.now += 7200
    world.sink.refuses = False
    world.start(ping())
    await until(lambda: "12:01:00" in world.sink.times, every=0.002)
    assert [str(missed.count) for missed in world.missed] == ["118"]
    assert world.sink.times[0] == "12:01:00"


async def test_a_sink_that_takes_events_again_is_no_trouble_any_more(world: World) -> None:
    world.sink.refuses = True
    world.start(ping())
    await world.pass_time(60)
    await until(lambda: bool(world.told), every=0.002)
    world.sink.refuses = False
    await until(lambda: world.told[-1] is None, every=0.002)
    assert world.sink.times == ["12:01:00"]


async def test_a_source_that_went_while_nobody_looked_is_forgotten(world: World, tmp_path: Path) -> None:
    world.start(ping("a"), ping("b"))
    await world.pass_time(1)
    await world.stop()
    world.start(ping("b"))
    await world.pass_time(1)
    notes = TickNotes(tmp_path / "sources.db")
    assert set(notes.load()) == {"b"}
    notes.close()


async def test_a_changed_schedule_counts_from_its_change(world: World) -> None:
    world.start(ping(schedule="0 * * * *"))
    await world.pass_time(1800)
    world.runner.put(ping(schedule="45 * * * *"))
    await world.pass_time(1800)
    await until(lambda: world.sink.times == ["12:45:00"] or bool(world.missed), every=0.002)
    assert world.missed == [Missed(1, NOON + 2700, NOON + 2700)]


async def test_what_is_paused_or_removed_does_not_fire(world: World) -> None:
    world.start(ping("a"), ping("b"), ping("c"))
    world.runner.pause("a")
    world.runner.remove("b")
    await world.pass_time(60)
    await until(lambda: bool(world.sink.taken), every=0.002)
    await world.pass_time(1)
    assert [event.id for event in world.sink.taken] == [event_at(ping("c"), NOON + 60).id]


async def test_a_sink_that_takes_nothing_does_not_fill_the_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "MOST_WAITING", 2)
    world.sink.refuses = True
    world.start(ping())
    for _ in range(4):
        await world.pass_time(60)
        await until(lambda: world.runner._unwritten.settled == {}, every=0.002)
    await until(lambda: len(world.missed) == 2, every=0.002)
    assert str(world.missed[0]).endswith("2 wait for the sink already")
    world.sink.refuses = False
    await until(lambda: world.sink.times == ["12:01:00", "12:02:00"], every=0.002)
