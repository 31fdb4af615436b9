"""Subscribers of channels: an entry counts where a Subscription stands behind it, and only as that Subscription."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.routes import Route
from penstock.controllers.reconcilers.services import ServiceReconciler
from penstock.kube.kinds import CHANNEL, EVENT, IN_MEMORY_CHANNEL, SERVICE, SUBSCRIPTION, Key, Kind, Obj
from penstock.resources.admission import CONTROLLER_USER
from tests.unit.controllers.memory_plane import ControlPlane, Starter

THEIRS = {"uri": "http://theirs", "audience": "sink"}
FOREIGN = {
    "name": "s",
    "uid": "made-up",
    "generation": 1,
    "subscriberUri": "http://attacker",
    "subscriberAudience": "https://kubernetes.default.svc.cluster.local",
    "auth": {"serviceAccountName": "eventing-controller"},
}


def named(name: str, namespace: str = "ns", **body: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **body}


def subscription(**ref: str) -> Obj:
    reference = {"apiVersion": IN_MEMORY_CHANNEL.api_version, "kind": IN_MEMORY_CHANNEL.kind, "name": "c", **ref}
    return named("s", spec={"channel": reference, "subscriber": THEIRS})


def channel(name: str, *entries: Obj, owner: str | None = None) -> Obj:
    made = named(name, spec={"subscribers": list(entries)})
    if owner is not None:
        one = {"apiVersion": CHANNEL.api_version, "kind": "Channel", "name": name, "uid": owner, "controller": True}
        made["metadata"]["ownerReferences"] = [one]
    return made


def routes(plane: ControlPlane) -> list[Route]:
    return [record for record in plane.records().values() if isinstance(record, Route)]


def entries(plane: ControlPlane, name: str) -> list[Obj]:
    found = plane.api.get(IN_MEMORY_CHANNEL, "ns", name) or {}
    return list((found.get("spec") or {}).get("subscribers") or [])


@pytest.mark.parametrize("owner", ["made-up", "of a Channel of another kind"])
async def test_an_entry_without_a_subscription_has_no_route_and_goes(plane: ControlPlane, owner: str) -> None:
    if owner != "made-up":
        template = {"apiVersion": "example.com/v1", "kind": "Gadget"}
        owner = plane.api.apply(CHANNEL, named("c", spec={"channelTemplate": template}))["metadata"]["uid"]
    plane.api.apply(IN_MEMORY_CHANNEL, channel("c", FOREIGN, owner=owner), user=CONTROLLER_USER)
    await plane.until(lambda: plane.ready(IN_MEMORY_CHANNEL, "c"))
    await plane.until(lambda: entries(plane, "c") == [])
    await plane.settled()
    assert not any(key.startswith("route/") for write in plane.topic.writes for key in write)


@pytest.mark.parametrize("first", [CHANNEL, IN_MEMORY_CHANNEL], ids=lambda kind: str(kind.kind))
async def test_a_channel_and_one_of_its_name_do_not_undo_what_the_other_writes(start: Starter, first: Kind) -> None:
    """Whoever made the channel that does the work, and whatever owner it names."""
    plane = await start()
    made = {CHANNEL: named("c", spec={}), IN_MEMORY_CHANNEL: channel("c")}
    plane.api.apply(first, made.pop(first))
    for kind, obj in made.items():
        plane.api.apply(kind, {**obj, "metadata": {**obj["metadata"], "ownerReferences": []}})
    plane.api.apply(SUBSCRIPTION, named("via-channel", spec={**subscription(kind="Channel")["spec"]}))
    plane.api.apply(SUBSCRIPTION, named("direct", spec=subscription()["spec"]))
    names = ("via-channel", "direct")
    await plane.until(lambda: all(plane.ready(SUBSCRIPTION, name) for name in names))
    await plane.settled()
    assert sorted(entry["name"] for entry in entries(plane, "c")) == sorted(names)
    assert sorted(route.name for route in routes(plane)) == sorted(names)


async def test_what_two_controllers_change_in_turn_does_not_hold_up_a_start(start: Starter) -> None:
    """Here a Service changes whenever its controller has looked at it."""
    plane = await start()
    plane.api.apply(SERVICE, named("busy", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]}))
    await plane.settled()
    await plane.stop()
    plane = await start()
    reconcile, rounds = ServiceReconciler.reconcile, 0

    async def again(self: ServiceReconciler, key: Key, obj: Obj | None) -> None:
        nonlocal rounds
        rounds += 1
        await reconcile(self, key, obj)
        held = plane.api.get(SERVICE, key.namespace, key.name) or {}
        plane.api.apply(SERVICE, {**held, "metadata": {**held["metadata"], "annotations": {"round": str(rounds)}}})

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(ServiceReconciler, "reconcile", again)
        plane = await start()
        plane.api.apply(IN_MEMORY_CHANNEL, channel("other"))
        await plane.until(lambda: plane.ready(IN_MEMORY_CHANNEL, "other"))
        assert rounds > 2
        await plane.stop()


async def test_the_uid_of_another_channels_subscription_gets_no_route(plane: ControlPlane) -> None:
    plane.api.apply(IN_MEMORY_CHANNEL, named("c"))
    uid = plane.api.apply(SUBSCRIPTION, subscription())["metadata"]["uid"]
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "s"))
    template = {"apiVersion": IN_MEMORY_CHANNEL.api_version, "kind": IN_MEMORY_CHANNEL.kind}
    owner = plane.api.apply(CHANNEL, named("other", spec={"channelTemplate": template}))["metadata"]["uid"]
    plane.api.apply(IN_MEMORY_CHANNEL, channel("other", {**FOREIGN, "uid": uid}, owner=owner), user=CONTROLLER_USER)
    await plane.until(lambda: plane.ready(CHANNEL, "other") and entries(plane, "other") == [])
    await plane.settled()
    [route] = routes(plane)
    assert (route.uid, route.subscriber and route.subscriber.url) == (uid, "http://theirs")


@pytest.mark.parametrize(
    ("oidc", "account"), [("disabled", ""), ("enabled", "s-oidc-messaging.knative.dev-subscription")]
)
async def test_a_route_sends_as_its_own_subscription_where_oidc_is_enabled(
    plane: ControlPlane, oidc: str, account: str
) -> None:
    plane.switch(authentication_oidc=oidc)
    missing = {"apiVersion": "v1", "kind": "Service", "name": "missing"}
    asked = subscription()
    asked["spec"]["subscriber"] = {"ref": missing}
    uid = plane.api.apply(SUBSCRIPTION, asked)["metadata"]["uid"]
    # The entry of a Subscription that does not resolve stays as it is.
    plane.api.apply(IN_MEMORY_CHANNEL, channel("c", {**FOREIGN, "uid": uid}), user=CONTROLLER_USER)
    await plane.until(lambda: routes(plane))
    await plane.settled()
    assert [(route.uid, route.account) for route in routes(plane)] == [(uid, account)]


async def test_a_subscription_of_another_namespace_sends_as_one_of_its_own(plane: ControlPlane) -> None:
    plane.switch(authentication_oidc="enabled", cross_namespace_event_links="enabled")
    plane.api.apply(IN_MEMORY_CHANNEL, named("c", "bank"))
    plane.api.apply(SUBSCRIPTION, subscription(namespace="bank"))
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "s"))
    [route] = routes(plane)
    assert (route.namespace, route.account) == ("ns", "s-oidc-messaging.knative.dev-subscription")


async def test_the_name_of_a_service_is_not_taken_from_it_by_a_channel(plane: ControlPlane) -> None:
    plane.api.apply(SERVICE, named("c-kn-channel", spec={"ports": [{"port": 80}]}))
    host = "name/c-kn-channel.ns.svc.cluster.local"
    before = await plane.until(lambda: plane.records().get(host))
    plane.api.apply(IN_MEMORY_CHANNEL, named("c"))
    await plane.until(lambda: plane.condition(IN_MEMORY_CHANNEL, "c", "ChannelServiceReady").get("status") == "False")
    told = plane.condition(IN_MEMORY_CHANNEL, "c", "ChannelServiceReady")
    assert told["reason"] == "ChannelServiceFailed"
    assert told["message"].startswith(
        'Channel Service failed: inmemorychannel: ns/c does not own Service: "c-kn-channel"'
    )
    assert plane.records()[host] == before


async def test_the_name_of_a_channel_is_not_taken_from_it_by_a_service(plane: ControlPlane) -> None:
    plane.api.apply(IN_MEMORY_CHANNEL, named("c"))
    await plane.until(lambda: plane.ready(IN_MEMORY_CHANNEL, "c"))
    before = plane.records()["name/c-kn-channel.ns.svc.cluster.local"]
    plane.api.apply(SERVICE, named("c-kn-channel", spec={"ports": [{"port": 80}]}))

    def told() -> list[str]:
        return [event["message"] for event in plane.api.all(EVENT).values() if event["reason"] == "NameTaken"]

    await plane.until(told)
    assert told() == ["The name c-kn-channel.ns.svc.cluster.local belongs to InMemoryChannel ns/c."]
    assert plane.records()["name/c-kn-channel.ns.svc.cluster.local"] == before
    plane.api.remove(IN_MEMORY_CHANNEL, Key("ns", "c"))
    await plane.until(lambda: plane.records()["name/c-kn-channel.ns.svc.cluster.local"] != before)
