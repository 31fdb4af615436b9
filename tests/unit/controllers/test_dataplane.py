"""What the data plane has reported, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.contract import reports
from penstock.contract.records import Unreadable
from penstock.contract.reports import COMPONENTS, Ack, Component, Loss, Standing
from penstock.contract.routes import Route, Target
from penstock.controllers.routes import dataplane as module
from penstock.controllers.routes import publisher as publisher_module
from penstock.controllers.routes.dataplane import LOSSES_SHOWN, DataPlane
from penstock.controllers.routes.publisher import Publisher
from penstock.controllers.tracker import Observer
from penstock.kube.kinds import Key
from penstock.settings import Settings
from tests.unit.controllers.api_double import TopicDouble

ROUTE = Route("t", "Trigger", "ns", "t", "b")
SHOWN = 600.0
BROKER, TRIGGER = ("Broker", Key("ns", "b")), ("Trigger", Key("ns", "t"))


class Clock:
    """Stands still unless moved."""

    now = 1000.0
    put_right = 0.0
    """By how much the wall clock was put forward."""

    def time(self) -> float:
        return self.now + self.put_right

    def monotonic(self) -> float:
        return self.now


class Scene:
    """A publisher with a Broker and a Trigger, and a data plane that reports what the test says."""

    def __init__(self, clock: Clock, topic: TopicDouble) -> None:
        self.clock, self.enqueued, self.ingress_changes = clock, list[Observer](), 0
        self.announced: list[tuple[str, str]] = []
        self.publisher = Publisher(topic, self.enqueued.append)  # type: ignore[arg-type]
        self.dataplane = DataPlane(
            Settings(),
            self.publisher,
            self.enqueued.append,
            self._changed,
            type_seen=lambda _: None,
            announce=lambda route, event: self.announced.append((route.name, event.reason)),
            losses_shown=SHOWN,
        )

    def _changed(self) -> None:
        self.ingress_changes += 1

    async def publish(self, route: Route) -> None:
        """Publishes the Broker and the Trigger's route, and returns when they are out."""
        self.publisher.claim(BROKER, [Target("b", "Broker", "ns", "b")])
        self.publisher.claim(TRIGGER, [route])
        out = asyncio.Event()
        self.publisher.listen(lambda _: out.set())
        task = asyncio.create_task(self.publisher.run())
        await asyncio.wait_for(out.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def ack(self, version: int, *components: Component, refused: dict[str, str] | None = None) -> None:
        for component in components or COMPONENTS:
            ack = Ack(component, "one", version, self.clock.now, refused or {})
            self.dataplane.take(reports.key_of(ack), ack)

    def lose(self, partition: int, first: int, last: int, at: float | None = None) -> None:
        loss = Loss("t", partition, first, last, self.clock.now if at is None else at)
        self.dataplane.take(reports.key_of(loss), loss)

    def taken(self) -> bool:
        return self.dataplane.has_taken("route/t", before=False)

    def ingress(self) -> bool:
        return self.dataplane.ingress_has_taken("target/b", before=False)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(publisher_module, "GATHER_SECONDS", 0.0)
    scene = Scene(clock, TopicDouble())
    await scene.publisher.restore()
    await scene.publish(ROUTE)
    return scene


async def test_nothing_is_taken_before_it_is_acknowledged(scene: Scene) -> None:
    assert not scene.taken()
    assert not scene.ingress()


async def test_a_route_is_taken_when_every_component_has_its_version(scene: Scene) -> None:
    scene.ack(1, "ingress", "router")
    assert not scene.taken()
    scene.ack(1, "dispatcher")
    assert scene.taken()
    assert TRIGGER in scene.enqueued


async def test_a_target_is_taken_when_the_ingress_has_its_version(scene: Scene) -> None:
    scene.ack(1, "ingress")
    assert scene.ingress()
    assert BROKER in scene.enqueued
    assert TRIGGER not in scene.enqueued


async def test_an_older_version_does_not_count(scene: Scene) -> None:
    scene.ack(0)
    assert not scene.taken()


async def test_what_was_taken_stays_taken_while_a_component_restarts(scene: Scene) -> None:
    scene.ack(1)
    scene.dataplane.take("ack/router/one", None)
    scene.clock.now += 1
    scene.ack(1, "ingress")
    assert scene.taken()


async def test_an_acknowledgement_faster_than_the_publisher_is_not_lost(scene: Scene) -> None:
    scene.ack(2)
    scene.enqueued.clear()
    await scene.publish(Route("t", "Trigger", "ns", "t", "b", paused=True))
    assert scene.enqueued == [TRIGGER]
    assert scene.taken()


async def test_an_ingress_that_is_silent_for_long_makes_targets_unready_until_it_is_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ack(1)
    assert scene.ingress()
    scene.clock.now += reports.SILENT_SECONDS * 2 + 1
    await _tick(scene, monkeypatch)
    assert not scene.ingress()
    assert scene.taken()
    scene.ack(1, "ingress")
    assert scene.ingress()
    assert scene.ingress_changes == 2


async def test_what_the_router_refuses_is_known_until_it_says_otherwise(scene: Scene) -> None:
    scene.ack(1, "ingress", "dispatcher")
    scene.ack(1, "router", refused={"t": "too deep"})
    assert scene.dataplane.refused("t") == "too deep"
    assert scene.taken()
    scene.dataplane.take("ack/router/one", None)
    assert scene.dataplane.refused("t") == "too deep", "a router that is away serves it no more than before"
    scene.enqueued.clear()
    scene.ack(1, "router")
    assert scene.dataplane.refused("t") is None
    assert scene.enqueued == [TRIGGER]


async def test_losses_are_kept_by_route_and_its_object_is_looked_at(scene: Scene) -> None:
    scene.lose(1, 5, 9)
    scene.lose(0, 2, 9)
    assert scene.dataplane.losses("t") == ("partition 0, offsets 2 to 9", "partition 1, offsets 5 to 9")
    assert scene.enqueued == [TRIGGER, TRIGGER]
    assert scene.dataplane.losses("other") == ()


async def test_a_loss_expires_after_its_time_and_the_object_is_looked_at(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.lose(0, 2, 9)
    scene.clock.now += SHOWN / 2
    scene.lose(1, 5, 9)
    scene.clock.now += SHOWN / 2 - 1
    scene.enqueued.clear()
    await _tick(scene, monkeypatch)
    assert len(scene.dataplane.losses("t")) == 2
    scene.clock.now += 1
    await _tick(scene, monkeypatch)
    assert scene.dataplane.losses("t") == ("partition 1, offsets 5 to 9",)
    scene.clock.now += SHOWN / 2
    await _tick(scene, monkeypatch)
    assert scene.dataplane.losses("t") == ()
    assert scene.enqueued == [TRIGGER, TRIGGER]


async def test_a_further_loss_is_shown_for_its_own_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.lose(0, 2, 9)
    scene.clock.now += SHOWN - 1
    scene.lose(0, 10, 20)
    scene.clock.now += SHOWN - 1
    await _tick(scene, monkeypatch)
    assert scene.dataplane.losses("t") == ("partition 0, offsets 10 to 20",)


async def test_several_losses_of_a_partition_are_shown_up_to_a_number(scene: Scene) -> None:
    scene.lose(0, 2, 9)
    scene.lose(0, 20, 29)
    scene.lose(0, 20, 29)
    assert scene.dataplane.losses("t") == ("partition 0, offsets 2 to 9", "partition 0, offsets 20 to 29")
    for number in range(4, 3 + LOSSES_SHOWN):
        scene.clock.now += 1
        scene.lose(0, number * 10, number * 10)
    shown = scene.dataplane.losses("t")
    assert (len(shown), shown[0]) == (LOSSES_SHOWN, "partition 0, offsets 20 to 29")


async def test_a_loss_that_is_read_again_after_its_time_is_not_shown(scene: Scene) -> None:
    scene.lose(0, 2, 9, at=scene.clock.now - SHOWN)
    assert scene.dataplane.losses("t") == ()
    assert scene.enqueued == []


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"component": 3}'])
async def test_a_report_that_cannot_be_read_is_left_out(scene: Scene, value: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^(Decode|Validation)Error: "):
        scene.dataplane._receive("ack/ingress/one", value)
    assert scene.dataplane.at_ingress == 0


async def test_a_report_that_breaks_the_data_plane_ends_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        """No pause."""

    def broken(_: int) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(scene.dataplane, "_advance_ingress", broken)
    ack = Ack("ingress", "one", 1, scene.clock.now)
    scene.dataplane._receive(reports.key_of(ack), reports.encode(ack))
    await asyncio.sleep(0)
    monkeypatch.setattr(asyncio, "sleep", at_once)
    with pytest.raises(ZeroDivisionError):
        await scene.dataplane.run()


async def test_a_wall_clock_that_jumps_silences_nobody(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.dataplane.caught_up()
    scene.ack(0)
    for jump in (7200.0, -7200.0):
        scene.clock.put_right = jump
        scene.clock.now += 1
        await _tick(scene, monkeypatch)
        assert scene.dataplane.ingress_lives
    scene.ack(1)
    assert scene.taken(), "the writers' clocks have not jumped"


async def test_the_last_word_of_the_dead_does_not_count_at_a_start(scene: Scene) -> None:
    for component in COMPONENTS:
        ack = Ack(component, "dead", 1, scene.clock.now - reports.SILENT_SECONDS - 1)
        scene.dataplane.take(reports.key_of(ack), ack)
    assert not scene.taken()


async def _tick(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One turn of the watch for silence, without its pause."""
    pause: Callable[[float], object] = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _seconds: pause(0))
    task = asyncio.create_task(scene.dataplane.run())
    for _ in range(3):
        await pause(0)  # type: ignore[misc]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    monkeypatch.setattr(asyncio, "sleep", pause)


async def test_how_deliveries_go_reaches_the_trigger_and_people(scene: Scene) -> None:
    scene.dataplane.caught_up()
    scene.ack(1)

    standing = Standing("t", "one", scene.clock.now, lag=3, failures=4, since=990.0, failed=999.0, url="http://s/")
    scene.dataplane.take(reports.key_of(standing), standing)
    scene.enqueued.clear()
    scene.dataplane.show_deliveries(scene.clock.now)
    assert scene.enqueued == [TRIGGER]
    assert scene.announced == [("t", "DeliveryFailed")]
    shown = scene.dataplane.delivery("t")
    assert shown is not None
    assert (shown.lag, shown.failures) == (3, 4)
    scene.dataplane.take(reports.key_of(standing), None)
    assert scene.dataplane.delivery("t") is None
