"""The Replay controller over an API in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.reports import ReplayProgress, key_of
from penstock.contract.routes import Endpoint, Route
from penstock.kube.kinds import (
    BROKER,
    CHANNEL,
    EVENT,
    IN_MEMORY_CHANNEL,
    REPLAY,
    SUBSCRIPTION,
    TRIGGER,
    Key,
    Kind,
    Obj,
)
from penstock.resources.delivery import START_FROM
from penstock.runtime.times import parse_rfc3339
from tests.unit.controllers.memory_plane import ControlPlane, Starter
from tests.unit.controllers.test_reconcile import named, subscription, trigger

TARGET: dict[str, Any] = {"target": {"kind": "Trigger", "name": "t"}}


def replay(**spec: Any) -> Obj:
    obj = named("r", spec=spec or TARGET)
    obj["metadata"]["creationTimestamp"] = "2026-11-01T12:00:00Z"
    return obj


def route_of(plane: ControlPlane, name: str = "r") -> Route | None:
    found = [record for record in plane.records().values() if isinstance(record, Route)]
    return next((route for route in found if route.kind == "Replay" and route.name == name), None)


def tell(plane: ControlPlane, route: Route, *, finished: bool, counted: int = 3, failed: int = 0) -> None:
    """The dispatcher tells how far it has got, in every partition."""
    assert route.replay is not None
    for partition, end in enumerate(route.replay.end):
        progress = ReplayProgress(route.uid, partition, end, counted, failed, 0, 0, finished)
        plane.dataplane.take(key_of(progress), progress)


def reason(plane: ControlPlane, name: str = "r") -> str | None:
    return plane.condition(REPLAY, name, "Succeeded").get("reason")


async def prepared(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger(filters=[{"exact": {"type": "x"}}]))
    await plane.until(lambda: plane.ready(TRIGGER, "t"))


async def test_a_replay_is_a_route_like_that_of_its_trigger_and_goes_when_it_is_done(plane: ControlPlane) -> None:
    plane.topic.ends = (7, 9)
    await prepared(plane)
    plane.api.apply(REPLAY, replay(**TARGET, rate=5, filters=[{"exact": {"source": "/s"}}]))
    route = await plane.until(lambda: route_of(plane))
    assert (route.subscriber, route.filters) == (Endpoint("http://sink"), [{"exact": {"type": "x"}}])
    assert (route.start, route.replay.end, route.replay.rate) == ((0, 0), (7, 9), 5.0)
    assert (route.replay.role, route.replay.filters) == ("Trigger", [{"exact": {"source": "/s"}}])
    assert reason(plane) == "Running"
    tell(plane, route, finished=False)
    await plane.until(lambda: (plane.api.get(REPLAY, "ns", "r") or {})["status"].get("counted") == 6)
    tell(plane, route, finished=True)
    await plane.until(lambda: plane.condition(REPLAY, "r", "Succeeded").get("status") == "True")
    await plane.until(lambda: route_of(plane) is None)
    assert (plane.api.get(REPLAY, "ns", "r") or {})["status"]["sent"] == 6


async def test_a_replay_that_the_dispatcher_cannot_go_on_with_has_failed(plane: ControlPlane) -> None:
    await prepared(plane)
    plane.api.apply(REPLAY, replay())
    route = await plane.until(lambda: route_of(plane))
    progress = ReplayProgress(route.uid, 0, 2, 1, 0, 0, 0, finished=False, problem="ValueError: strange")
    plane.dataplane.take(key_of(progress), progress)
    await plane.until(lambda: reason(plane) == "ReplayFailed")
    assert "ValueError: strange" in plane.condition(REPLAY, "r", "Completed")["message"]
    await plane.until(lambda: route_of(plane) is None)


async def test_a_restart_in_the_middle_changes_nothing(start: Starter) -> None:
    first = await start()
    await prepared(first)
    first.api.apply(REPLAY, replay())
    route = await first.until(lambda: route_of(first))
    tell(first, route, finished=False)
    await first.settled()
    second = await start()
    await second.settled()
    assert route_of(second) == route
    tell(second, route, finished=True)
    await second.until(lambda: route_of(second) is None)


async def test_deleting_a_replay_stops_it(plane: ControlPlane) -> None:
    await prepared(plane)
    plane.api.apply(REPLAY, replay())
    await plane.until(lambda: route_of(plane))
    await plane.api.delete(REPLAY, Key("ns", "r"))
    await plane.until(lambda: route_of(plane) is None)


async def test_a_replay_waits_for_its_trigger_and_ends_when_that_goes(plane: ControlPlane) -> None:
    plane.api.apply(REPLAY, replay())
    await plane.until(lambda: reason(plane) == "TargetNotFound")
    assert plane.condition(REPLAY, "r", "Succeeded")["status"] == "Unknown"
    await prepared(plane)
    await plane.until(lambda: route_of(plane))
    await plane.api.delete(TRIGGER, Key("ns", "t"))
    await plane.until(lambda: reason(plane) == "TargetGone")
    await plane.until(lambda: route_of(plane) is None)
    assert plane.condition(REPLAY, "r", "Succeeded")["status"] == "False"


async def test_a_window_in_the_future_is_told(plane: ControlPlane) -> None:
    await prepared(plane)
    plane.api.apply(REPLAY, replay(**TARGET, **{"from": "2999-01-01T00:00:00Z"}))
    await plane.until(lambda: reason(plane) == "WindowInFuture")
    assert route_of(plane) is None


async def test_a_replay_of_a_subscription_delivers_as_a_subscription_does(plane: ControlPlane) -> None:
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(SUBSCRIPTION, subscription(reply={"uri": "http://reply"}))
    plane.api.apply(REPLAY, replay(target={"kind": "Subscription", "name": "s"}, deadLetters=True, reason="500"))
    route = await plane.until(lambda: route_of(plane))
    assert (route.role, route.reply) == ("Subscription", Endpoint("http://reply"))
    assert route.replay.given_up_by == (plane.api.get(SUBSCRIPTION, "ns", "s") or {})["metadata"]["uid"]
    assert route.replay.reason == "500"


@pytest.mark.parametrize("kind", ["Broker", "Channel"])
async def test_a_replay_to_a_sink_takes_everything_and_wants_no_reply(plane: ControlPlane, kind: str) -> None:
    plane.api.apply(BROKER, named("x"))
    plane.api.apply(CHANNEL, named("x"))
    plane.api.apply(REPLAY, replay(source={"kind": kind, "name": "x"}, sink={"uri": "http://own"}))
    route = await plane.until(lambda: route_of(plane))
    assert (route.subscriber, route.reply) == (None, Endpoint("http://own"))
    assert f"target/{route.target}" in plane.records()


@pytest.mark.parametrize(
    ("annotations", "asked", "since"),
    [
        ({}, "earliest", "2026-10-20T08:00:00Z"),
        ({}, "2026-10-01T00:00:00Z", "2026-10-20T08:00:00Z"),
        ({}, "2026-10-25T00:00:00Z", "2026-10-25T00:00:00Z"),
        ({START_FROM: "2026-10-10T00:00:00Z"}, "earliest", "2026-10-10T00:00:00Z"),
        ({START_FROM: "earliest"}, "earliest", "1970-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("kind", [TRIGGER, SUBSCRIPTION], ids=lambda kind: kind.kind)
async def test_a_replay_has_no_older_events_of_another_namespace_than_its_target_asked_for(
    plane: ControlPlane, kind: Kind, annotations: dict[str, str], asked: str, since: str
) -> None:
    plane.switch(cross_namespace_event_links="enabled")
    origin = BROKER if kind == TRIGGER else IN_MEMORY_CHANNEL
    plane.api.apply(origin, {"metadata": {"name": "payments", "namespace": "bank"}})
    ref = {"apiVersion": origin.api_version, "kind": origin.kind, "name": "payments", "namespace": "bank"}
    where = {"brokerRef": ref} if kind == TRIGGER else {"channel": ref}
    link = named("t", annotations, spec={**where, "subscriber": {"uri": "http://sink"}})
    link["metadata"]["creationTimestamp"] = "2026-10-20T08:00:00Z"
    plane.api.apply(kind, link)
    plane.api.apply(REPLAY, replay(target={"kind": kind.kind, "name": "t"}, **{"from": asked}))
    route = await plane.until(lambda: route_of(plane))
    assert route.replay.since == parse_rfc3339(since).timestamp()


async def test_what_is_no_longer_kept_is_told_in_a_condition_and_an_event(plane: ControlPlane) -> None:
    plane.topic.firsts, plane.topic.ends = (5, 0), (7, 9)
    await prepared(plane)
    plane.api.apply(REPLAY, replay(**TARGET, **{"from": "1970-01-01T00:00:01Z"}))
    await plane.until(lambda: plane.condition(REPLAY, "r", "EventsRetained"))
    assert "oldest event that is kept" in plane.condition(REPLAY, "r", "EventsRetained")["message"]
    await plane.until(lambda: any(e["reason"] == "EventsLost" for e in plane.api.all(EVENT).values()))
