"""EventTypes: what they refer to is looked for, and those of what passes are made where the feature is on."""

from __future__ import annotations

import time
from typing import Any

from penstock.contract import reports
from penstock.contract.reports import SeenType
from penstock.contract.routes import Target
from penstock.kube.kinds import BROKER, CHANNEL, CONFIG_MAP, EVENT_TYPE, Key, Kind, Obj
from tests.unit.controllers.memory_plane import ControlPlane

GADGET = Kind("example.com/v1", "Gadget")
ALWAYS = [{"name": name, "required": True} for name in ("type", "source", "specversion", "id")]


def named(name: str, namespace: str = "ns", **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def switch(plane: ControlPlane, value: str) -> None:
    data = {"eventtype-auto-create": value}
    plane.api.apply(CONFIG_MAP, named("config-features", "knative-eventing", data=data))


def targets(plane: ControlPlane) -> list[Target]:
    return [record for record in plane.records().values() if isinstance(record, Target)]


def pass_by(plane: ControlPlane, uid: str, kind: str = "t", at: float | None = None) -> None:
    seen = SeenType(uid, kind, "/s", "", "1.0", time.time() if at is None else at)
    plane.dataplane.take(reports.key_of(seen), seen)


async def test_an_event_type_follows_what_it_refers_to(plane: ControlPlane) -> None:
    reference = {"apiVersion": BROKER.api_version, "kind": BROKER.kind, "name": "b"}
    plane.api.apply(EVENT_TYPE, named("e", spec={"attributes": ALWAYS, "reference": reference}))
    plane.api.apply(EVENT_TYPE, named("free", spec={"attributes": ALWAYS}))
    await plane.until(lambda: plane.condition(EVENT_TYPE, "e").get("reason") == "ResourceDoesNotExist")
    await plane.until(lambda: plane.condition(EVENT_TYPE, "free", "ReferenceExists").get("reason") == "ReferenceNotSet")
    plane.api.apply(BROKER, named("b"))
    await plane.until(lambda: plane.ready(EVENT_TYPE, "e"))
    plane.api.remove(BROKER, Key("ns", "b"))
    await plane.until(lambda: not plane.ready(EVENT_TYPE, "e"))


async def test_a_kind_that_is_not_served_cannot_be_looked_for(plane: ControlPlane) -> None:
    plane.api.unserved.add(GADGET)
    reference = {"apiVersion": GADGET.api_version, "kind": GADGET.kind, "name": "g"}
    plane.api.apply(EVENT_TYPE, named("e", spec={"attributes": ALWAYS, "reference": reference}))
    found = await plane.until(lambda: plane.condition(EVENT_TYPE, "e"))
    assert (found["status"], found["reason"]) == ("Unknown", "ReferenceGetFailed")


async def test_types_are_told_and_described_only_while_the_feature_is_on(plane: ControlPlane) -> None:
    uid = plane.api.apply(BROKER, named("b"))["metadata"]["uid"]
    await plane.until(lambda: plane.ready(BROKER, "b"))
    assert [target.tells_types for target in targets(plane)] == [False]
    pass_by(plane, uid)
    await plane.settled()
    assert plane.api.all(EVENT_TYPE) == {}
    switch(plane, "Enabled")
    await plane.until(lambda: [target.tells_types for target in targets(plane)] == [True])
    pass_by(plane, uid)
    [key] = await plane.until(lambda: plane.api.all(EVENT_TYPE))
    await plane.until(lambda: plane.ready(EVENT_TYPE, key.name))
    pass_by(plane, uid)
    pass_by(plane, uid, "old", at=time.time() - 3600)
    pass_by(plane, "gone")
    await plane.settled()
    assert list(plane.api.all(EVENT_TYPE)) == [key]
    switch(plane, "disabled")
    await plane.until(lambda: [target.tells_types for target in targets(plane)] == [False])


async def test_a_description_that_somebody_deleted_comes_back_while_such_events_pass(plane: ControlPlane) -> None:
    switch(plane, "enabled")
    plane.api.apply(CHANNEL, named("c"))
    [target] = await plane.until(lambda: targets(plane))
    pass_by(plane, target.uid)
    [key] = await plane.until(lambda: plane.api.all(EVENT_TYPE))
    reference = (plane.api.get(EVENT_TYPE, "ns", key.name) or {})["spec"]["reference"]
    assert (reference["kind"], reference["name"]) == ("InMemoryChannel", "c")
    plane.api.remove(EVENT_TYPE, key)
    await plane.settled()
    pass_by(plane, target.uid)
    await plane.until(lambda: key in plane.api.all(EVENT_TYPE))
    plane.api.remove(CHANNEL, Key("ns", "c"))
    await plane.until(lambda: plane.api.all(EVENT_TYPE) == {})
