"""Which statuses are written of how deliveries go, and what people are told: what is new, and not too often."""

from __future__ import annotations

import msgspec
import pytest

from penstock.contract.attempts import FailureCause
from penstock.contract.reports import Standing, standing_key
from penstock.contract.routes import Route
from penstock.controllers.routes.route_health import (
    BURST,
    EVENTS_PER_SECOND,
    KEPT_FOR_NEWS,
    LINES,
    LINES_SECONDS,
    NUMBERS_SECONDS,
    QUIET_SECONDS,
    REPEAT_SECONDS,
    STATUSES_PER_SECOND,
    Announcer,
    RouteEvent,
    RouteHealthTracker,
    merged,
)
from penstock.kube.kinds import SUBSCRIPTION, TRIGGER, Key, Kind, Obj
from penstock.resources.delivery_status import DeliveryState

URL = "http://127.0.0.1:9000/"
REFUSED = f"no connection to {URL}: [Errno 111] Connection refused"


def failing(route: str = "r", at: float = 100.0, instance: str = "one", **more: int) -> Standing:
    told = Standing(route, instance, at, 3, 3, failures=2, since=99.0, failed=at, due=at + 2, reason=REFUSED, url=URL)
    told = msgspec.structs.replace(told, cause=FailureCause.CONNECTION_REFUSED)
    return msgspec.structs.replace(told, **more)


def well(route: str = "r", at: float = 100.0, instance: str = "one", **more: int) -> Standing:
    return msgspec.structs.replace(Standing(route, instance, at, succeeded=at, url=URL), **more)


@pytest.fixture
def health() -> RouteHealthTracker:
    return RouteHealthTracker()


def test_a_failure_is_shown_and_told_at_once(health: RouteHealthTracker) -> None:
    health.take(failing(), fresh=True)
    changed, happened = health.tick(100.0)
    assert changed == ["r"]
    text = f"{URL} refuses connections; 3 events wait, next try in 2 s"
    assert happened == [RouteEvent("r", "DeliveryFailed", text)]
    shown = health.shown("r")
    assert shown is not None
    assert (shown.lag, shown.failures, shown.since) == (3, 2, 99.0)
    assert health.tick(101.0) == ([], [])


def test_a_loss_to_come_is_shown_at_once_and_so_is_its_end(health: RouteHealthTracker) -> None:
    health.take(well(), fresh=True)
    health.take(well(instance="two"), fresh=True)
    health.tick(100.0)
    health.take(well(at=101.0, expiring=True), fresh=True)
    assert health.tick(101.0)[0] == ["r"]
    assert health.shown("r") is not None
    assert (health.shown("r") or DeliveryState()).expiring
    health.take(well(at=102.0), fresh=True)
    assert health.tick(102.0)[0] == ["r"]
    assert not (health.shown("r") or DeliveryState()).expiring


def test_the_end_is_shown_and_told_with_how_long_it_took(health: RouteHealthTracker) -> None:
    health.take(failing(), fresh=True)
    health.tick(100.0)
    health.take(well(at=134.0, lag=1), fresh=True)
    changed, happened = health.tick(134.0)
    assert changed == ["r"]
    assert happened == [RouteEvent("r", "DeliveryRecovered", f"{URL} takes events again after 35 s; 1 event waits")]


def test_numbers_of_a_failing_route_wait_some_seconds(health: RouteHealthTracker) -> None:
    health.take(failing(), fresh=True)
    health.tick(100.0)
    health.take(failing(at=101.0, lag=50, failures=5), fresh=True)
    assert health.tick(101.0)[0] == []
    assert health.tick(100.0 + NUMBERS_SECONDS)[0] == ["r"]
    shown = health.shown("r")
    assert shown is not None
    assert (shown.lag, shown.failures) == (50, 5)


def test_small_numbers_of_a_healthy_route_wait_a_minute(health: RouteHealthTracker) -> None:
    health.take(well(), fresh=True)
    assert health.tick(100.0)[0] == ["r"]
    health.take(well(at=130.0, lag=7), fresh=True)
    assert health.tick(130.0)[0] == []
    assert health.tick(100.0 + QUIET_SECONDS)[0] == ["r"]


def test_that_nothing_waits_any_more_is_shown_sooner(health: RouteHealthTracker) -> None:
    health.take(well(lag=1), fresh=True)
    health.tick(100.0)
    health.take(well(at=101.0), fresh=True)
    assert health.tick(101.0)[0] == []
    assert health.tick(100.0 + NUMBERS_SECONDS)[0] == ["r"]


def test_a_healthy_route_that_falls_far_behind_is_shown_sooner(health: RouteHealthTracker) -> None:
    health.take(well(), fresh=True)
    health.tick(100.0)
    health.take(well(at=106.0, lag=5000), fresh=True)
    assert health.tick(106.0)[0] == ["r"]


def test_many_routes_are_written_at_a_steady_pace_and_failures_first(health: RouteHealthTracker) -> None:
    for number in range(1000):
        health.take(well(f"r{number}"), fresh=True)
    written: list[str] = []
    for second in range(400):
        if second == 100:
            for number in range(20):
                health.take(failing(f"f{number}", at=200.0), fresh=True)
        changed, _ = health.tick(100.0 + second)
        written += changed
        assert len(written) <= BURST + STATUSES_PER_SECOND * second
        if second == 100:
            assert set(changed) >= {f"f{number}" for number in range(20)}
    assert len(set(written)) == 1020


def test_a_thousand_failures_at_once_are_written_at_that_pace_too(health: RouteHealthTracker) -> None:
    for number in range(1000):
        health.take(failing(f"f{number}"), fresh=True)
    written = [uid for second in range(200) for uid in health.tick(100.0 + second)[0]]
    assert len(written) <= BURST + STATUSES_PER_SECOND * 200
    assert len(set(written)) == 1000


def test_a_thousand_failures_at_once_are_told_of_at_a_pace_and_each_of_them(health: RouteHealthTracker) -> None:
    for number in range(1000):
        health.take(failing(f"f{number}"), fresh=True)
    told: list[RouteEvent] = []
    for second in range(600):
        told += health.tick(100.0 + second)[1]
        assert len(told) <= BURST + EVENTS_PER_SECOND * second
    assert {one.reason for one in told} == {"DeliveryFailed"}
    assert sorted(one.route for one in told) == sorted(f"f{number}" for number in range(1000))


def test_drops_of_thousands_of_routes_leave_room_for_a_failure_that_is_new(health: RouteHealthTracker) -> None:
    for number in range(1000):
        health.take(failing(f"d{number}", dropped=1), fresh=False)
    health.tick(100.0)
    for number in range(1000):
        health.take(failing(f"d{number}", dropped=3), fresh=True)
    told = [one for second in range(1, 10) for one in health.tick(100.0 + second)[1]]
    assert {one.reason for one in told} == {"EventsDropped"}
    assert len(told) <= BURST - KEPT_FOR_NEWS + EVENTS_PER_SECOND * 10
    health.take(failing("new", at=110.0), fresh=True)
    told += health.tick(110.0)[1]
    assert "new" in {one.route for one in told}
    told += [one for second in range(11, 600) for one in health.tick(100.0 + second)[1]]
    dropped = {one.route: one.message for one in told if one.reason == "EventsDropped"}
    assert dropped.keys() == {f"d{number}" for number in range(1000)}
    assert all(message.startswith("2 events were dropped") for message in dropped.values())


def test_drops_and_dead_letters_are_told_with_counts_and_not_too_often(health: RouteHealthTracker) -> None:
    health.take(failing(dropped=1, dead_lettered=2), fresh=True)
    told = {one.reason: one.message for one in health.tick(100.0)[1]}
    assert told["EventsDropped"].startswith(f"1 event was dropped: no attempt succeeded at {URL}")
    assert told["EventsDeadLettered"] == "2 events went to the dead letter sink"
    health.take(failing(at=101.0, dropped=4, dead_lettered=2), fresh=True)
    assert health.tick(101.0)[1] == []
    health.take(failing(at=110.0, dropped=6, dead_lettered=2), fresh=True)
    [dropped] = health.tick(100.0 + REPEAT_SECONDS)[1]
    assert dropped.message.startswith("5 events were dropped")


def test_a_task_that_begins_anew_counts_from_nothing(health: RouteHealthTracker) -> None:
    health.take(failing(dropped=7), fresh=False)
    health.tick(100.0)
    health.take(failing(dropped=1), fresh=True)
    [told] = health.tick(101.0)[1]
    assert told.message.startswith("1 event was dropped")


def test_what_lay_in_the_topic_is_shown_but_told_to_nobody(health: RouteHealthTracker) -> None:
    health.take(failing(dropped=7, dead_lettered=7), fresh=False)
    changed, happened = health.tick(100.0)
    assert (changed, happened) == (["r"], [])
    health.take(well(at=120.0, dropped=7, dead_lettered=7), fresh=True)
    assert [one.reason for one in health.tick(120.0)[1]] == ["DeliveryRecovered"]


def test_a_restart_is_not_a_recovery(health: RouteHealthTracker) -> None:
    health.take(failing(instance="before"), fresh=False)
    health.tick(100.0)
    waits = msgspec.structs.replace(well(at=110.0, instance="after", lag=1), succeeded=0.0)
    health.take(waits, fresh=True)
    assert health.tick(110.0, {"after"})[1] == []
    health.take(failing(at=112.0, instance="after"), fresh=True)
    assert health.tick(112.0, {"after"})[1] == []  # it failed before the restart, and still does
    health.take(well(at=130.0, instance="after"), fresh=True)
    assert [one.reason for one in health.tick(130.0, {"after"})[1]] == ["DeliveryRecovered"]


def test_a_subscriber_that_fails_now_and_then_is_not_told_of_each_time(health: RouteHealthTracker) -> None:
    told = 0
    for second in range(60):
        at = 100.0 + second
        health.take(failing(at=at) if second % 2 else well(at=at), fresh=True)
        told += len(health.tick(at)[1])
    assert told <= 2 * 60 / REPEAT_SECONDS


def test_tasks_are_added_up_and_an_old_failure_gives_way_to_a_success_elsewhere() -> None:
    both = merged([failing(at=100.0), well(at=101.0, instance="two", lag=4)])
    assert (both.lag, both.fails, both.succeeded) == (7, True, 101.0)
    later = merged([failing(at=100.0), well(at=160.0, instance="two")])
    assert not later.fails


def test_a_task_that_is_no_more_does_not_count_beside_those_that_are(health: RouteHealthTracker) -> None:
    health.take(failing(instance="gone"), fresh=True)
    health.take(well(instance="one", lag=2), fresh=True)
    health.tick(100.0, {"one"})
    shown = health.shown("r")
    assert shown is not None
    assert (shown.lag, shown.fails) == (2, False)
    health.take(well(instance="one", at=200.0, lag=2), fresh=True)
    health.tick(200.0)  # a moment in which nobody is heard of says nothing
    shown = health.shown("r")
    assert shown is not None
    assert shown.lag == 5


def test_a_task_that_says_no_more_is_forgotten(health: RouteHealthTracker) -> None:
    health.take(failing(), fresh=True)
    health.tick(100.0)
    health.forget(standing_key("r", "one"))
    assert health.shown("r") is None
    assert health.tick(101.0) == ([], [])
    health.forget(standing_key("unknown", "one"))


class Objects:
    """An informer of each kind, with what the test put there."""

    def __init__(self) -> None:
        self.held: dict[tuple[Kind, Key], Obj] = {}
        self.asked: Kind = TRIGGER

    def informer(self, kind: Kind) -> Objects:
        self.asked = kind
        return self

    def get(self, key: Key) -> Obj | None:
        return self.held.get((self.asked, key))


class Recorder:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append(("Normal", reason, obj["metadata"]["name"]))

    def warning(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append(("Warning", reason, obj["metadata"]["name"]))


class Scene:
    """An announcer with a clock of the test's own."""

    def __init__(self) -> None:
        self.now, self.lines, self.objects, self.recorder = 0.0, list[str](), Objects(), Recorder()
        self.announce = Announcer(self.objects, self.recorder, self.lines.append, self.clock)  # type: ignore[arg-type]

    def clock(self) -> float:
        return self.now

    def route(self, name: str, kind: Kind = TRIGGER, namespace: str = "default", uid: str = "u") -> Route:
        self.objects.held[kind, Key(namespace, name)] = {"metadata": {"name": name, "uid": uid}}
        return Route("u", kind.kind, namespace, name, "b")  # type: ignore[arg-type]


def test_people_read_an_event_and_a_line() -> None:
    scene = Scene()
    scene.announce(scene.route("greetings"), RouteEvent("u", "DeliveryFailed", "it fails"))
    scene.announce(scene.route("s", SUBSCRIPTION, "team"), RouteEvent("u", "DeliveryRecovered", "it goes on"))
    assert scene.recorder.events == [("Warning", "DeliveryFailed", "greetings"), ("Normal", "DeliveryRecovered", "s")]
    assert scene.lines == ["trigger/greetings: it fails", "subscription/s in team: it goes on"]


def test_an_object_of_another_life_is_not_spoken_of() -> None:
    scene = Scene()
    scene.announce(scene.route("greetings", uid="another"), RouteEvent("u", "DeliveryFailed", "it fails"))
    assert (scene.recorder.events, scene.lines) == ([], [])


def test_a_thousand_failures_do_not_hide_everything_else() -> None:
    scene = Scene()
    for number in range(1000):
        scene.announce(scene.route(f"t{number}"), RouteEvent("u", "DeliveryFailed", "it fails"))
    assert len(scene.lines) == LINES
    assert len(scene.recorder.events) == 1000
    scene.now = LINES_SECONDS
    scene.announce(scene.route("last"), RouteEvent("u", "DeliveryFailed", "it fails"))
    assert scene.lines[-1] == (
        f"trigger/last: it fails (and {1000 - LINES} other lines like this; penstock lag shows all)"
    )
