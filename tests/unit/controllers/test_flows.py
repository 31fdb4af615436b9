"""Sequence and Parallel over an API in memory: their parts come, follow their changes, and go."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.routes import Route
from penstock.kube.kinds import (
    CHANNEL,
    EVENT,
    IN_MEMORY_CHANNEL,
    PARALLEL,
    SEQUENCE,
    SUBSCRIPTION,
    Key,
    Kind,
    Obj,
)
from tests.unit.controllers.api_double import refuse
from tests.unit.controllers.memory_plane import ControlPlane, Starter

GADGET = Kind("example.com/v1", "Gadget")


def flow(name: str = "f", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def steps(*names: str) -> list[Obj]:
    return [{"uri": f"http://{name}"} for name in names]


def branch(name: str, condition: str | None = None) -> Obj:
    return {"subscriber": {"uri": f"http://{name}"}, **({"filter": {"uri": condition}} if condition else {})}


def names(plane: ControlPlane, kind: Kind) -> list[str]:
    return sorted(key.name for key in plane.api.all(kind))


def routes(plane: ControlPlane) -> dict[str, tuple[str, str | None]]:
    """Where each published route leads, and where its answers go."""
    found = [record for record in plane.records().values() if isinstance(record, Route)]
    return {
        route.name: (route.subscriber.url if route.subscriber else "", route.reply.url if route.reply else None)
        for route in found
    }


async def test_a_sequence_becomes_ready_and_chains_its_steps(plane: ControlPlane) -> None:
    plane.api.apply(SEQUENCE, flow(steps=steps("one", "two"), reply={"uri": "http://end"}))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    assert names(plane, IN_MEMORY_CHANNEL) == names(plane, SUBSCRIPTION) == ["f-kn-sequence-0", "f-kn-sequence-1"]
    second = (plane.api.get(IN_MEMORY_CHANNEL, "ns", "f-kn-sequence-1") or {})["status"]["address"]["url"]
    assert routes(plane) == {
        "f-kn-sequence-0": ("http://one", second),
        "f-kn-sequence-1": ("http://two", "http://end"),
    }
    first = (plane.api.get(IN_MEMORY_CHANNEL, "ns", "f-kn-sequence-0") or {})["status"]["address"]["url"]
    assert (plane.api.get(SEQUENCE, "ns", "f") or {})["status"]["address"] == {"url": first}
    assert [event["reason"] for event in plane.api.all(EVENT).values() if event["type"] == "Warning"] == []


async def test_a_restart_and_a_resync_write_nothing(start: Starter) -> None:
    first = await start()
    delivery = {"deadLetterSink": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "d"}}}
    first.api.apply(Kind("v1", "Service"), flow("d", ports=[{"port": 80}]))
    first.api.apply(SEQUENCE, flow(steps=[{"uri": "http://one", "delivery": delivery}]))
    first.api.apply(PARALLEL, flow("p", branches=[branch("one", "http://if"), branch("two")]))
    await first.until(lambda: first.ready(SEQUENCE, "f") and first.ready(PARALLEL, "p"))
    await first.settled()
    version = first.api.version
    first.context.tracker.resync()
    await first.settled()
    assert first.api.version == version, first.api.journal[-5:]
    second = await start()
    await second.settled()
    assert second.api.version == version, second.api.journal[-5:]


async def test_a_sequence_that_loses_steps_loses_their_parts(plane: ControlPlane) -> None:
    plane.api.apply(SEQUENCE, flow(steps=steps("one", "two", "three")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    plane.api.apply(SEQUENCE, flow(steps=steps("other")))
    await plane.until(lambda: names(plane, SUBSCRIPTION) == names(plane, IN_MEMORY_CHANNEL) == ["f-kn-sequence-0"])
    await plane.until(lambda: routes(plane) == {"f-kn-sequence-0": ("http://other", None)})
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    assert len((plane.api.get(SEQUENCE, "ns", "f") or {})["status"]["channelStatuses"]) == 1
    plane.api.apply(SEQUENCE, flow(steps=steps("other", "more")))
    await plane.until(lambda: len(routes(plane)) == 2 and plane.ready(SEQUENCE, "f"))
    assert [event["message"] for event in plane.api.all(EVENT).values() if event["type"] == "Warning"] == []


async def test_what_is_not_the_sequences_own_is_left_alone(plane: ControlPlane) -> None:
    plane.api.apply(IN_MEMORY_CHANNEL, flow("f-kn-sequence-1"))
    plane.api.apply(SEQUENCE, flow(steps=steps("one")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    await plane.settled()
    assert names(plane, IN_MEMORY_CHANNEL) == ["f-kn-sequence-0", "f-kn-sequence-1"]


async def test_a_subscription_that_somebody_changed_or_deleted_is_put_right(plane: ControlPlane) -> None:
    plane.api.apply(SEQUENCE, flow(steps=steps("one")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    held = plane.api.get(SUBSCRIPTION, "ns", "f-kn-sequence-0") or {}
    held["spec"]["subscriber"] = {"uri": "http://elsewhere"}
    plane.api.apply(SUBSCRIPTION, held)
    await plane.until(lambda: routes(plane) == {"f-kn-sequence-0": ("http://one", None)})
    plane.api.remove(SUBSCRIPTION, Key("ns", "f-kn-sequence-0"))
    await plane.until(lambda: names(plane, SUBSCRIPTION) and plane.ready(SEQUENCE, "f"))


async def test_another_kind_of_channel_replaces_the_first(plane: ControlPlane) -> None:
    plane.api.apply(SEQUENCE, flow(steps=steps("one")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    template = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind}
    plane.api.apply(SEQUENCE, flow(steps=steps("one"), channelTemplate=template))

    def moved() -> bool:
        subscription = plane.api.get(SUBSCRIPTION, "ns", "f-kn-sequence-0") or {"spec": {"channel": {}}}
        return subscription["spec"]["channel"].get("kind") == CHANNEL.kind and plane.ready(SEQUENCE, "f")

    await plane.until(moved)
    assert names(plane, CHANNEL) == ["f-kn-sequence-0"]


async def test_a_sequence_says_which_channel_cannot_be_had_and_harms_nobody(plane: ControlPlane) -> None:
    plane.api.unserved.add(GADGET)
    template = {"apiVersion": GADGET.api_version, "kind": GADGET.kind}
    plane.api.apply(SEQUENCE, flow("bad", steps=steps("one"), channelTemplate=template))
    plane.api.apply(PARALLEL, flow("worse", branches=[branch("one")], channelTemplate=template))
    plane.api.apply(SEQUENCE, flow(steps=steps("one")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    found = await plane.until(lambda: plane.condition(SEQUENCE, "bad", "ChannelsReady"))
    assert found["message"] == (
        "failed to reconcile channel bad-kn-sequence-0 at step 0: the server could not find the requested resource"
    )
    found = await plane.until(lambda: plane.condition(PARALLEL, "worse", "ChannelsReady"))
    assert found["message"].startswith("failed to reconcile channel worse-kn-parallel at step -1: ")
    await plane.until(lambda: "InternalError" in {event["reason"] for event in plane.api.all(EVENT).values()})


async def test_a_sequence_that_is_deleted_takes_its_parts_along_and_may_come_again(plane: ControlPlane) -> None:
    plane.api.apply(SEQUENCE, flow(steps=steps("one", "two")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    plane.api.remove(SEQUENCE, Key("ns", "f"))
    plane.api.apply(SEQUENCE, flow(steps=steps("three")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f") and list(routes(plane)) == ["f-kn-sequence-0"])
    plane.api.remove(SEQUENCE, Key("ns", "f"))
    await plane.until(lambda: not names(plane, SUBSCRIPTION) and not names(plane, IN_MEMORY_CHANNEL))
    await plane.until(lambda: routes(plane) == {})


async def test_a_parallel_becomes_ready_and_leads_into_each_branch(plane: ControlPlane) -> None:
    branches = [branch("one", "http://if"), branch("two")]
    plane.api.apply(PARALLEL, flow("p", branches=branches, reply={"uri": "http://end"}))
    await plane.until(lambda: plane.ready(PARALLEL, "p"))

    def url(name: str) -> str:
        return str((plane.api.get(IN_MEMORY_CHANNEL, "ns", name) or {})["status"]["address"]["url"])

    assert routes(plane) == {
        "p-kn-parallel-filter-0": ("http://if", url("p-kn-parallel-0")),
        "p-kn-parallel-filter-1": (url("p-kn-parallel-1"), None),
        "p-kn-parallel-0": ("http://one", "http://end"),
        "p-kn-parallel-1": ("http://two", "http://end"),
    }
    assert (plane.api.get(PARALLEL, "ns", "p") or {})["status"]["address"]["url"] == url("p-kn-parallel")
    plane.api.apply(PARALLEL, flow("p", branches=branches[:1]))
    await plane.until(lambda: sorted(routes(plane)) == ["p-kn-parallel-0", "p-kn-parallel-filter-0"])
    await plane.until(lambda: names(plane, IN_MEMORY_CHANNEL) == ["p-kn-parallel", "p-kn-parallel-0"])
    await plane.until(lambda: plane.ready(PARALLEL, "p"))
    assert [event["reason"] for event in plane.api.all(EVENT).values() if event["type"] == "Warning"] == []


async def test_a_server_that_is_busy_is_asked_again(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    create = plane.api.create
    refused: list[Kind] = []

    async def busy(kind: Kind, obj: Obj) -> Obj:
        if kind == SUBSCRIPTION and len(refused) < 2:
            refused.append(kind)
            raise refuse(429 if refused else 503, "later")
        return await create(kind, obj)

    monkeypatch.setattr(plane.api, "create", busy)
    plane.api.apply(SEQUENCE, flow(steps=steps("one")))
    await plane.until(lambda: plane.ready(SEQUENCE, "f"))
    assert len(refused) == 2
    assert [event["message"] for event in plane.api.all(EVENT).values() if event["type"] == "Warning"] == []
