"""Kubernetes Events, informers that lose the API, and the names of kinds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.controllers.informer import Informer
from penstock.controllers.reconciler import new_failures
from penstock.controllers.recorder import MOST_WAITING, EventRecorder, event_about
from penstock.kube import list_watch
from penstock.kube.client import Listing
from penstock.kube.errors import Unavailable
from penstock.kube.kinds import BROKER, ENDPOINTS, EVENT, TRIGGER, Key, Kind, Obj
from tests.unit.controllers.api_double import refuse

OBJ: Obj = {
    "apiVersion": TRIGGER.api_version,
    "kind": "Trigger",
    "metadata": {"name": "t", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
}


def status(kind: str, state: str, reason: str = "R", message: str = "m") -> Obj:
    return {"conditions": [{"type": kind, "status": state, "reason": reason, "message": message}]}


def test_an_event_names_its_object_and_repeats_under_the_same_name() -> None:
    event = event_about(OBJ, "Warning", "Reason", "why", "now")
    assert event["involvedObject"]["uid"] == "u"
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"] == event_about(OBJ, "Warning", "Reason", "why", "later")["metadata"]["name"]
    assert event["metadata"]["name"] != event_about(OBJ, "Warning", "Reason", "else", "now")["metadata"]["name"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, status("Ready", "False"), True),
        (status("Ready", "False"), status("Ready", "False"), False),
        (status("Ready", "False", "Other"), status("Ready", "False"), True),
        ({}, status("Ready", "Unknown"), False),
        ({}, status("Ready", "True"), False),
        ({}, status("Ready", "False", "BrokerNotReady"), False),
        ({}, status("EventsRetained", "False", "EventsLost"), True),
        ({}, status("EventsRetained", "Unknown", "EventsExpiring"), True),
        (status("EventsRetained", "Unknown", "EventsExpiring"), {}, False),
    ],
)
def test_new_failures_are_told_and_what_is_on_its_way_is_not(before: Obj, after: Obj, told: bool) -> None:
    assert bool(new_failures(before, after)) == told


class EventApi:
    """Keeps Events."""

    def __init__(self) -> None:
        self.written: list[Obj] = []
        self.done = asyncio.Event()

    async def create(self, kind: Kind, obj: Obj) -> Obj:
        assert kind == EVENT
        self.written.append(obj)
        return obj

    async def replace(self, kind: Kind, obj: Obj) -> Obj:
        self.written.append(obj)
        self.done.set()
        return obj


async def test_a_repeated_event_is_counted_up() -> None:
    api = EventApi()
    recorder = EventRecorder(api)  # type: ignore[arg-type]
    recorder.warning(OBJ, "Reason", "why")
    recorder.warning(OBJ, "Reason", "why")
    task = asyncio.create_task(recorder.run())
    await asyncio.wait_for(api.done.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event["count"] for event in api.written] == [1, 2]


async def test_too_many_events_are_dropped_and_hold_nobody_up() -> None:
    api = EventApi()
    recorder = EventRecorder(api)  # type: ignore[arg-type]
    for number in range(MOST_WAITING + 10):
        recorder.normal(OBJ, "Reason", str(number))
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)  # one turn of the loop is enough for what waits: the double answers at once
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event["message"] for event in api.written] == [str(number) for number in range(MOST_WAITING)]


class FlakyApi:
    """Lists once, then fails in the ways it is told, then lists again."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures, self.lists = failures, 0

    async def list(self, kind: Kind) -> Listing:
        self.lists += 1
        name = f"b{self.lists}"
        return Listing([{"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}}], "1")

    @contextlib.asynccontextmanager
    async def watch(self, kind: Kind, version: str) -> AsyncIterator[AsyncIterator[tuple[str, Obj]]]:
        if self.failures:
            raise self.failures.pop(0)
        yield self._nothing()

    async def _nothing(self) -> AsyncIterator[tuple[str, Obj]]:
        await asyncio.Event().wait()
        yield "", {}


@pytest.mark.parametrize(
    ("failure", "lists"), [(refuse(410, "too old"), 2), (Unavailable("gone"), 1), (refuse(500, "broken"), 1)]
)
async def test_only_a_watch_that_is_too_old_is_replaced_by_a_new_list(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, lists: int
) -> None:
    monkeypatch.setattr(list_watch, "FIRST_PAUSE_SECONDS", 0.0)
    api = FlakyApi([failure])
    informer = Informer(api, BROKER)  # type: ignore[arg-type]
    seen: list[tuple[Key, Any]] = []
    informer.listen(lambda key, obj: seen.append((key, obj is not None)))
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert api.lists == lists
    expected = [(Key("ns", "b1"), True)]
    if lists == 2:
        expected += [(Key("ns", "b1"), False), (Key("ns", "b2"), True)]
    assert seen == expected


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        (TRIGGER, "triggers.eventing.knative.dev"),
        (ENDPOINTS, "endpoints"),
        (Kind("v1", "Service"), "services"),
        (Kind("example.com/v1", "Policy"), "policies.example.com"),
        (Kind("example.com/v1", "Address"), "addresses.example.com"),
    ],
)
def test_plurals_are_guessed_by_kubernetes_rule(kind: Kind, plural: str) -> None:
    assert kind.qualified_plural == plural
