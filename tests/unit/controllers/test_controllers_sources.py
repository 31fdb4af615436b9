"""Controllers of sources over an API in memory: what their status says, and what runs for them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from memory_plane import ControlPlane, Starter

from penstock.controllers.api import BROKER, EVENT, PING_SOURCE, Key, Obj
from penstock.settings import Settings
from penstock.sources.pings.tick_notes import Changes, TickNotes


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(data_dir=tmp_path_factory.mktemp("data"))


def source(name: str = "p", **spec: Any) -> Obj:
    sink = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"sink": sink, **spec}}


BROKER_B = {"metadata": {"name": "b", "namespace": "ns"}}


async def test_a_pingsource_is_ready_as_soon_as_its_sink_has_an_address(plane: ControlPlane) -> None:
    plane.api.apply(PING_SOURCE, source())
    await plane.until(lambda: plane.condition(PING_SOURCE, "p", "SinkProvided").get("status") == "False")
    missing = plane.condition(PING_SOURCE, "p", "SinkProvided")
    assert missing["reason"] == "NotFound"
    plane.api.apply(BROKER, BROKER_B)
    await plane.until(lambda: plane.ready(PING_SOURCE, "p"))
    status = (plane.api.get(PING_SOURCE, "ns", "p") or {})["status"]
    assert status["sinkUri"].endswith("/ns/b")
    assert status["ceAttributes"][0]["type"] == "dev.knative.sources.ping"


async def test_missed_ticks_are_told_in_an_event(start: Starter, settings: Settings) -> None:
    first = await start()
    first.api.apply(BROKER, BROKER_B)
    uid = first.api.apply(PING_SOURCE, source(schedule="0 * * * *"))["metadata"]["uid"]
    await first.until(lambda: first.ready(PING_SOURCE, "p"))
    notes = TickNotes(settings.data_dir / "sources.db")
    await first.until(lambda: uid in notes.load())
    await first.stop()
    notes.write(Changes(settled={uid: replace(notes.load()[uid], last=int(time.time()) - 3 * 3600)}))
    notes.close()
    second = await start()
    await second.until(lambda: any(e["reason"] == "TicksMissed" for e in second.api.all(EVENT).values()))


async def test_a_deleted_pingsource_is_forgotten(plane: ControlPlane, settings: Settings) -> None:
    plane.api.apply(BROKER, BROKER_B)
    plane.api.apply(PING_SOURCE, source())
    await plane.until(lambda: plane.ready(PING_SOURCE, "p"))
    notes = TickNotes(settings.data_dir / "sources.db")
    await plane.until(lambda: bool(notes.load()))
    plane.api.remove(PING_SOURCE, Key("ns", "p"))
    await plane.until(lambda: not notes.load())
    notes.close()
