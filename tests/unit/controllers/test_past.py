"""Triggers and Subscriptions that ask for a past which only the history's table has, over an API in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.routes import Route
from penstock.history.reader.table_events import FirstKept
from penstock.kube.kinds import BROKER, CHANNEL, EVENT, SUBSCRIPTION, TRIGGER, Key, Kind, Obj
from penstock.settings import Settings
from tests.unit.controllers.memory_plane import ControlPlane, Starter
from tests.unit.controllers.test_reconcile import named, subscription, trigger
from tests.unit.controllers.test_replays import tell


@pytest.fixture
def settings() -> Settings:
    return Settings(history=True)


def routes(plane: ControlPlane) -> dict[str, Route]:
    """By whether it is the past."""
    found = [record for record in plane.records().values() if isinstance(record, Route)]
    return {"own" if route.replay is None else "past": route for route in found}


def forget(plane: ControlPlane) -> None:
    """Kafka has forgotten what the table has."""
    plane.topic.firsts, plane.topic.ends = (500, 0), (1000, 9)
    plane.topic.table = {0: FirstKept(20, 20)}


def asking(obj: Obj, start: str = "earliest") -> Obj:
    obj["metadata"]["annotations"] = {"penstock.dev/start-from": start}
    obj["metadata"]["creationTimestamp"] = "2026-11-01T12:00:00Z"
    return obj


def past(plane: ControlPlane, kind: Kind = TRIGGER, name: str = "t") -> dict[str, Any]:
    return plane.condition(kind, name, "PastDelivered")


async def test_a_trigger_gets_what_only_the_table_has_beside_new_events(plane: ControlPlane) -> None:
    forget(plane)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, asking(trigger(filters=[{"exact": {"type": "x"}}])))
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    found = routes(plane)
    own, older = found["own"], found["past"]
    assert (own.start, older.start) == ((1000, 9), (20, 0))
    assert older.replay is not None
    assert (older.replay.end, older.replay.past_of) == (own.start, own.uid)
    assert (older.filters, older.subscriber, older.role) == (own.filters, own.subscriber, "Trigger")
    await plane.until(lambda: past(plane).get("reason") == "Delivering")
    tell(plane, older, finished=False)
    await plane.until(lambda: "100 %" in past(plane)["message"])
    tell(plane, older, finished=True, failed=1)
    await plane.until(lambda: "past" not in routes(plane))
    assert (past(plane)["status"], past(plane)["reason"]) == ("True", "Delivered")
    assert past(plane)["message"] == "6 events from before it was created; 2 of them could not be delivered"
    await plane.settled()
    assert routes(plane)["own"].start == (1000, 9)
    assert past(plane)["status"] == "True"


async def test_a_subscription_gets_it_too(plane: ControlPlane) -> None:
    forget(plane)
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(SUBSCRIPTION, asking(subscription()))
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "s"))
    older = routes(plane)["past"]
    assert (older.start, older.role) == ((20, 0), "Subscription")
    tell(plane, older, finished=True)
    await plane.until(lambda: "past" not in routes(plane))
    assert past(plane, SUBSCRIPTION, "s")["status"] == "True"


async def test_a_restart_in_the_middle_goes_on_and_one_after_the_end_begins_nothing(start: Starter) -> None:
    first = await start()
    forget(first)
    first.api.apply(BROKER, named("b"))
    first.api.apply(TRIGGER, asking(trigger()))
    older = await first.until(lambda: routes(first).get("past"))
    await first.until(lambda: past(first).get("reason") == "Delivering")
    second = await start()
    await second.settled()
    assert routes(second)["past"] == older
    tell(second, older, finished=True)
    await second.until(lambda: "past" not in routes(second))
    third = await start()
    await third.settled()
    assert set(routes(third)) == {"own"}
    assert past(third)["status"] == "True"


async def test_a_record_of_the_past_that_is_lost_is_made_again(start: Starter) -> None:
    first = await start()
    forget(first)
    first.api.apply(BROKER, named("b"))
    first.api.apply(TRIGGER, asking(trigger()))
    older = await first.until(lambda: routes(first).get("past"))
    await first.until(lambda: past(first).get("reason") == "Delivering")
    await first.stop()
    first.topic.records[f"route/{older.uid}"] = b"\xff{"
    second = await start()
    assert await second.until(lambda: routes(second).get("past")) == older


async def test_without_a_table_kafka_alone_is_asked(plane: ControlPlane) -> None:
    plane.topic.ends = (7, 9)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, asking(trigger()))
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    older = routes(plane)["past"]
    assert routes(plane)["own"].start == (0, 0)
    tell(plane, older, finished=True, counted=0)
    await plane.until(lambda: past(plane).get("reason") == "NothingOlder")
    await plane.until(lambda: "past" not in routes(plane))


async def test_a_start_before_the_first_event_that_is_kept_is_told_for_good(start: Starter) -> None:
    plane = await start()
    forget(plane)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, asking(trigger(), "1970-01-01T00:00:10Z"))
    await plane.until(lambda: plane.condition(TRIGGER, "t", "EventsRetained").get("reason") == "PastNotKept")
    told = plane.condition(TRIGGER, "t", "EventsRetained")
    assert (told["status"], told["severity"]) == ("False", "Warning")
    assert "partitions 0 it begins with the oldest" in told["message"]
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    await plane.until(lambda: any(event["reason"] == "PastNotKept" for event in plane.api.all(EVENT).values()))
    again = await start()
    await again.settled()
    assert again.condition(TRIGGER, "t", "EventsRetained") == told


async def test_deleting_the_trigger_ends_its_past(plane: ControlPlane) -> None:
    forget(plane)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, asking(trigger()))
    await plane.until(lambda: routes(plane).get("past"))
    await plane.api.delete(TRIGGER, Key("ns", "t"))
    await plane.until(lambda: not routes(plane))
