"""Reconcilers over an API in memory: what each object leads to, whatever happens in between."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from penstock.contract.reports import Loss, key_of
from penstock.contract.routes import Route, ServiceName, Target
from penstock.controllers.reconcilers.trigger import TriggerReconciler
from penstock.kube.kinds import (
    API_SERVER_SOURCE,
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    ENDPOINTS,
    EVENT,
    IN_MEMORY_CHANNEL,
    POD,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
    Key,
    Kind,
    Obj,
)
from penstock.resources.broker import CLASS_ANNOTATION
from tests.unit.controllers.api_double import refuse
from tests.unit.controllers.memory_plane import ControlPlane, Starter

SINK = {"uri": "http://sink"}
GADGET = Kind("example.com/v1", "Gadget")


def named(name: str, annotations: Obj | None = None, **body: Any) -> Obj:
    metadata = {"name": name, "namespace": "ns", **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, **body}


def trigger(name: str = "t", annotations: Obj | None = None, **spec: Any) -> Obj:
    return named(name, annotations, spec={"broker": "b", "subscriber": SINK, **spec})


def subscription(name: str = "s", kind: Kind = CHANNEL, channel: str = "c", **spec: Any) -> Obj:
    ref = {"apiVersion": kind.api_version, "kind": kind.kind, "name": channel}
    return named(name, spec={"channel": ref, "subscriber": SINK, **spec})


async def test_status_is_written_only_when_it_changed(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    await plane.until(lambda: plane.ready(BROKER, "b"))
    await plane.settled()
    writes = plane.api.status_writes
    plane.context.tracker.resync()
    await plane.settled()
    assert plane.api.status_writes == writes


async def test_a_restart_writes_nothing_and_keeps_everything_ready(start: Starter) -> None:
    first = await start()
    first.api.apply(BROKER, named("b"))
    first.api.apply(TRIGGER, trigger())
    first.api.apply(CHANNEL, named("c"))
    first.api.apply(SUBSCRIPTION, subscription())
    await first.until(lambda: first.ready(TRIGGER, "t") and first.ready(SUBSCRIPTION, "s"))
    await first.settled()
    writes, records = first.api.status_writes, dict(first.topic.records)
    second = await start()
    second.dataplane.holding = True
    await second.settled()
    await second.settled()
    assert (second.api.status_writes, second.topic.records) == (writes, records), second.topic.writes
    assert second.ready(TRIGGER, "t")


async def test_what_was_deleted_while_nobody_watched_is_gone_after_a_restart(start: Starter) -> None:
    first = await start()
    first.api.apply(BROKER, named("b"))
    first.api.apply(TRIGGER, trigger())
    await first.until(lambda: first.ready(TRIGGER, "t"))
    await first.stop()
    first.api.remove(TRIGGER, Key("ns", "t"))
    second = await start()
    await second.until(lambda: not any(isinstance(r, Route) for r in second.records().values()))


async def test_a_relist_after_410_finds_what_the_watch_missed(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    await plane.until(lambda: plane.ready(BROKER, "b"))
    plane.api.apply(BROKER, named("other"))
    plane.api.remove(BROKER, Key("ns", "b"))
    plane.api.cut_watches()
    await plane.until(lambda: plane.ready(BROKER, "other"))
    await plane.until(lambda: [r.name for r in plane.records().values() if isinstance(r, Target)] == ["other"])


def warnings(plane: ControlPlane) -> list[tuple[str, str]]:
    events = plane.api.all(EVENT).values()
    return [(event["involvedObject"]["kind"], event["reason"]) for event in events if event["type"] == "Warning"]


async def test_nothing_warns_on_the_way_to_ready(plane: ControlPlane) -> None:
    delivery = {"deadLetterSink": SINK}
    plane.api.apply(BROKER, named("b", spec={"delivery": delivery}))
    plane.api.apply(TRIGGER, trigger())
    plane.api.apply(CHANNEL, named("c", spec={"delivery": delivery}))
    plane.api.apply(SUBSCRIPTION, subscription())
    await plane.until(
        lambda: plane.ready(TRIGGER, "t") and plane.ready(SUBSCRIPTION, "s") and plane.ready(CHANNEL, "c")
    )
    await plane.settled()
    assert warnings(plane) == []


async def test_a_broker_of_a_class_that_is_not_served_says_so_with_its_triggers(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b", {CLASS_ANNOTATION: "RabbitMQ"}))
    plane.api.apply(TRIGGER, trigger())
    await plane.until(lambda: plane.condition(TRIGGER, "t").get("reason") == "BrokerClassNotServed")
    assert plane.condition(BROKER, "b")["message"] == (
        'Brokers of the class "RabbitMQ" are not served here; '
        'classes that are: "Penstock", "MTChannelBasedBroker", "Kafka"'
    )
    await plane.until(
        lambda: set(warnings(plane)) == {(kind, "BrokerClassNotServed") for kind in ("Broker", "Trigger")}
    )
    assert plane.api.get(BROKER, "ns", "b")["status"].get("address") is None  # type: ignore[index]
    assert not [record for record in plane.records().values() if isinstance(record, Route | Target)]


async def test_a_broker_that_another_controller_serves_is_left_alone(plane: ControlPlane) -> None:
    theirs = {"conditions": [{"type": "Ready", "status": "True"}]}
    plane.api.apply(BROKER, named("b", {CLASS_ANNOTATION: "RabbitMQ"}, status=theirs))
    plane.api.apply(TRIGGER, trigger())
    await plane.settled()
    found = plane.api.get(BROKER, "ns", "b")
    assert found is not None
    assert found["status"] == theirs
    assert not (plane.api.get(TRIGGER, "ns", "t") or {}).get("status")


async def test_a_broker_whose_configuration_is_missing_is_not_ready_until_it_is_there(plane: ControlPlane) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine"}
    plane.api.apply(BROKER, named("b", spec={"config": config}))
    plane.api.apply(TRIGGER, trigger())
    await plane.until(lambda: plane.condition(BROKER, "b").get("reason") == "ChannelTemplateFailed")
    assert plane.condition(BROKER, "b")["message"] == (
        'Error on setting up the ChannelTemplate: configmap "mine" not found'
    )
    await plane.until(lambda: plane.condition(TRIGGER, "t").get("reason") == "ChannelTemplateFailed")
    plane.api.apply(CONFIG_MAP, named("mine", data={}))
    await plane.until(lambda: plane.ready(BROKER, "b") and plane.ready(TRIGGER, "t"))
    plane.api.remove(CONFIG_MAP, Key("ns", "mine"))
    await plane.until(lambda: plane.condition(TRIGGER, "t").get("reason") == "ChannelTemplateFailed")
    assert [record for record in plane.records().values() if isinstance(record, Route)], "events are still routed"


async def test_only_configmaps_configure_a_broker(plane: ControlPlane) -> None:
    config = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "mine"}
    plane.api.apply(BROKER, named("b", spec={"config": config}))
    await plane.until(lambda: plane.condition(BROKER, "b").get("reason") == "ChannelTemplateFailed")
    assert "only [kind: ConfigMap, apiVersion: v1]" in plane.condition(BROKER, "b")["message"]


async def test_a_route_stays_while_its_subscriber_is_replaced(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(SERVICE, named("sink", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]}))
    ref = {"apiVersion": "v1", "kind": "Service", "name": "sink"}
    uid = plane.api.apply(TRIGGER, trigger(subscriber={"ref": ref}))["metadata"]["uid"]
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    plane.api.remove(SERVICE, Key("ns", "sink"))
    await plane.until(lambda: plane.condition(TRIGGER, "t")["status"] == "False")
    await plane.settled()
    assert f"route/{uid}" in plane.records()


async def test_a_deleted_broker_takes_the_routes_of_its_triggers_along(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    uid = plane.api.apply(TRIGGER, trigger())["metadata"]["uid"]
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    first = plane.records()[f"route/{uid}"]
    plane.api.remove(BROKER, Key("ns", "b"))
    await plane.until(lambda: f"route/{uid}" not in plane.records())
    assert plane.condition(TRIGGER, "t")["reason"] == "BrokerDoesNotExist"
    broker = plane.api.apply(BROKER, named("b"))
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    again = plane.records()[f"route/{uid}"]
    assert isinstance(first, Route)
    assert isinstance(again, Route)
    assert again.target == broker["metadata"]["uid"] != first.target


async def test_a_changed_filter_is_not_ready_until_the_data_plane_has_it(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger())
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    plane.dataplane.holding = True
    plane.api.apply(TRIGGER, trigger(filter={"attributes": {"type": "x"}}))
    await plane.until(lambda: plane.condition(TRIGGER, "t").get("reason") == "SubscriptionNotConfigured")
    await plane.settled()
    [route] = [record for record in plane.records().values() if isinstance(record, Route)]
    assert route.attributes == {"type": "x"}, "it is published"
    assert not plane.ready(TRIGGER, "t"), "and nobody has said that he acts by it"
    plane.dataplane.acknowledge(plane.context.publisher.version)
    await plane.until(lambda: plane.ready(TRIGGER, "t"))


async def test_the_brokers_delivery_reaches_its_triggers_when_it_changes(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    uid = plane.api.apply(TRIGGER, trigger())["metadata"]["uid"]
    await plane.until(lambda: plane.ready(TRIGGER, "t"))
    broker = plane.api.get(BROKER, "ns", "b") or {}
    broker["spec"]["delivery"] = {"retry": 2, "deadLetterSink": {"uri": "http://dead"}}
    plane.api.apply(BROKER, broker)

    def inherited() -> bool:
        route = plane.records()[f"route/{uid}"]
        return isinstance(route, Route) and route.delivery.retry == 2 and route.delivery.dead_letter is not None

    await plane.until(inherited)
    status = (plane.api.get(TRIGGER, "ns", "t") or {})["status"]
    assert status["deadLetterSinkUri"] == "http://dead"


async def test_a_loss_is_shown_by_the_trigger_or_the_subscription_it_hit(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(CHANNEL, named("c"))
    uids = {
        TRIGGER: plane.api.apply(TRIGGER, trigger())["metadata"]["uid"],
        SUBSCRIPTION: plane.api.apply(SUBSCRIPTION, subscription())["metadata"]["uid"],
    }
    await plane.until(lambda: plane.ready(TRIGGER, "t") and plane.ready(SUBSCRIPTION, "s"))
    for uid in uids.values():
        loss = Loss(uid, 0, 1, 2, time.time())
        plane.dataplane.take(key_of(loss), loss)
    for kind, name in ((TRIGGER, "t"), (SUBSCRIPTION, "s")):
        found = await plane.until(lambda k=kind, n=name: plane.condition(k, n, "EventsRetained"))  # type: ignore[misc]
        assert (found["severity"], found["reason"]) == ("Warning", "EventsLost")
        assert plane.ready(kind, name)
    plane.dataplane.expire_losses(time.time() + 3600)
    for kind, name in ((TRIGGER, "t"), (SUBSCRIPTION, "s")):
        await plane.until(lambda k=kind, n=name: not plane.condition(k, n, "EventsRetained"))  # type: ignore[misc]


async def test_a_channel_whose_template_names_an_unknown_kind_says_so(plane: ControlPlane) -> None:
    plane.api.unserved.add(GADGET)
    template = {"apiVersion": GADGET.api_version, "kind": GADGET.kind}
    plane.api.apply(CHANNEL, named("c", spec={"channelTemplate": template}))
    found = await plane.until(lambda: plane.condition(CHANNEL, "c", "BackingChannelReady"))
    assert (found["status"], found["reason"]) == ("False", "ChannelFailure")


GADGET_SINK = {"ref": {"apiVersion": GADGET.api_version, "kind": GADGET.kind, "name": "g"}}
GADGET_OBJECT = named("g", status={"address": {"url": "http://gadget"}})


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Gad\0get"),
        ("v1", "Gadget" * 10_000),
        ("v1", "Gad/get"),
        ("v1", ".."),
        ("v1", "\ud800"),
        ("example.com/v1/x", "Gadget"),
        ("example.com/v1" * 10_000, "Gadget"),
        ("authentication.k8s.io/v1", "TokenReview"),
    ],
    ids=lambda text: ascii(text[:20]),
)
async def test_a_reference_to_what_cannot_be_listed_holds_nobody_up(start: Starter, version: str, kind: str) -> None:
    plane = await start()
    plane.api.not_listed.add(Kind("authentication.k8s.io/v1", "TokenReview"))
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger("other"))
    plane.api.apply(TRIGGER, trigger("refers", subscriber={"ref": {"apiVersion": version, "kind": kind, "name": "g"}}))
    await plane.stop()
    plane = await start()  # the first pass waits for every kind that is referred to
    plane.api.not_listed.add(Kind("authentication.k8s.io/v1", "TokenReview"))
    await plane.until(lambda: plane.ready(TRIGGER, "other"))
    message = plane.condition(TRIGGER, "refers").get("message", "")
    assert "could not find the requested resource" in message or "does not allow this method" in message


async def test_a_source_that_always_fails_keeps_no_route_of_a_trigger_that_is_gone(start: Starter) -> None:
    plane = await start()
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger("gone"))
    plane.api.denied.add(("system:serviceaccount:ns:default", POD))
    spec = {"resources": [{"apiVersion": "v1", "kind": "Pod"}], "sink": {"uri": "http://sink"}}
    plane.api.apply(API_SERVER_SOURCE, named("lacks-rights", spec=spec))
    await plane.until(lambda: plane.ready(TRIGGER, "gone"))
    await plane.stop()
    plane.api.remove(TRIGGER, Key("ns", "gone"))
    plane = await start()
    await plane.until(lambda: not any(isinstance(record, Route) for record in plane.records().values()))
    assert plane.condition(API_SERVER_SOURCE, "lacks-rights", "SufficientPermissions")["status"] == "False"


@pytest.mark.parametrize("code", [403, 404])
async def test_a_kind_that_cannot_be_read_is_told_to_those_who_refer_to_it_and_holds_nobody_up(
    start: Starter, code: int
) -> None:
    plane = await start()
    hidden = plane.api.forbidden if code == 403 else plane.api.unserved
    hidden.add(GADGET)
    plane.api.apply(GADGET, GADGET_OBJECT)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(TRIGGER, trigger("other"))
    plane.api.apply(TRIGGER, trigger("refers", subscriber=GADGET_SINK))
    plane.api.apply(SUBSCRIPTION, subscription(subscriber=GADGET_SINK))
    plane.api.apply(TRIGGER, trigger("depends", {"knative.dev/dependency": json.dumps({**GADGET_SINK["ref"]})}))
    await plane.stop()
    plane = await start()  # it is there from the beginning
    reason = "is forbidden" if code == 403 else "could not find the requested resource"
    await plane.until(lambda: plane.ready(TRIGGER, "other"))
    await plane.until(lambda: reason in plane.condition(TRIGGER, "refers").get("message", ""))
    await plane.until(lambda: reason in plane.condition(SUBSCRIPTION, "s").get("message", ""))
    await plane.until(lambda: reason in plane.condition(TRIGGER, "depends", "DependencyReady").get("message", ""))
    hidden.clear()
    await plane.until(lambda: plane.ready(TRIGGER, "refers") and plane.ready(SUBSCRIPTION, "s"))


async def test_routes_stay_when_the_kind_of_their_subscriber_may_no_longer_be_read(start: Starter) -> None:
    plane = await start()
    plane.api.apply(GADGET, GADGET_OBJECT)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(TRIGGER, trigger(subscriber=GADGET_SINK))
    plane.api.apply(SUBSCRIPTION, subscription(subscriber=GADGET_SINK))
    await plane.until(lambda: plane.ready(TRIGGER, "t") and plane.ready(SUBSCRIPTION, "s"))
    await plane.settled()
    routes = {key: record for key, record in plane.records().items() if isinstance(record, Route)}
    plane.api.forbidden.add(GADGET)
    plane.api.cut_watches()
    plane.context.tracker.informer(GADGET)._interrupted(refuse(403, "gadgets is forbidden"))
    await plane.until(lambda: not plane.ready(TRIGGER, "t"))
    await plane.settled()
    assert {key: record for key, record in plane.records().items() if isinstance(record, Route)} == routes
    plane = await start()
    await plane.settled()
    await plane.settled()
    assert {key: record for key, record in plane.records().items() if isinstance(record, Route)} == routes


@pytest.mark.parametrize("kind", [BROKER, TRIGGER, CHANNEL, IN_MEMORY_CHANNEL, SUBSCRIPTION])
@pytest.mark.parametrize("code", [403, 404])
async def test_a_kind_of_routes_that_cannot_be_read_is_waited_for_and_no_route_goes(
    start: Starter, code: int, kind: Kind
) -> None:
    plane = await start()
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger())
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(SUBSCRIPTION, subscription())
    await plane.until(lambda: plane.ready(TRIGGER, "t") and plane.ready(SUBSCRIPTION, "s"))
    await plane.settled()
    before = dict(plane.topic.records)
    hidden = plane.api.forbidden if code == 403 else plane.api.unserved
    hidden.add(kind)
    plane.api.cut_watches()
    plane.context.tracker.informer(kind)._interrupted(refuse(code, "it is gone for a moment"))
    await plane.settled()
    assert plane.topic.records == before
    await plane.stop()
    plane = await start()  # it is hidden from the beginning
    await plane.settled()
    assert plane.topic.records == before
    hidden.clear()
    plane.api.apply(TRIGGER, trigger("new"))
    await plane.until(lambda: plane.ready(TRIGGER, "new"))
    assert before.keys() < plane.topic.records.keys()


def route_starts(plane: ControlPlane) -> dict[str, tuple[int, ...]]:
    return {record.name: record.start for record in plane.records().values() if isinstance(record, Route)}


async def test_routes_whose_records_cannot_be_read_begin_with_the_oldest_event(start: Starter) -> None:
    plane = await start()
    plane.topic.firsts, plane.topic.ends = (1, 2), (10, 20)
    plane.api.apply(GADGET, GADGET_OBJECT)
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(CHANNEL, named("c"))
    uids = [
        plane.api.apply(TRIGGER, trigger())["metadata"]["uid"],
        plane.api.apply(TRIGGER, trigger("refers", subscriber=GADGET_SINK))["metadata"]["uid"],
        plane.api.apply(SUBSCRIPTION, subscription())["metadata"]["uid"],
    ]
    await plane.until(lambda: all(plane.ready(TRIGGER, name) for name in ("t", "refers")))
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "s"))
    assert set(route_starts(plane).values()) == {(10, 20)}
    await plane.stop()
    plane.topic.ends = (100, 200)
    garbage = dict.fromkeys([f"route/{uid}" for uid in uids], b"{")
    plane.topic.records = {**garbage, **{k: v for k, v in plane.topic.records.items() if k not in garbage}}
    plane.api.remove(GADGET, Key("ns", "g"))
    plane = await start()
    await plane.until(lambda: route_starts(plane).keys() == {"t", "s"})
    await plane.settled()
    assert plane.topic.records[f"route/{uids[1]}"] == b"{"  # nobody knows where it leads to, and yet it is not gone
    plane.api.apply(GADGET, GADGET_OBJECT)
    await plane.until(lambda: "refers" in route_starts(plane))
    assert route_starts(plane) == dict.fromkeys(("t", "refers", "s"), (1, 2))


async def test_no_route_goes_as_long_as_an_object_could_not_be_reconciled(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = await start()
    plane.api.apply(BROKER, named("b"))
    plane.api.apply(TRIGGER, trigger())
    plane.api.apply(TRIGGER, trigger("gone"))
    await plane.until(lambda: plane.ready(TRIGGER, "t") and plane.ready(TRIGGER, "gone"))
    await plane.settled()
    before = dict(plane.topic.records)
    await plane.stop()
    plane.api.remove(TRIGGER, Key("ns", "gone"))
    with monkeypatch.context() as defect:
        defect.setattr(TriggerReconciler, "reconcile", _fail)
        plane = await start()
        await plane.settled()
        assert plane.topic.records == before
    await plane.until(lambda: route_starts(plane).keys() == {"t"})


async def _fail(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


async def test_a_defect_in_a_listener_ends_the_control_plane(plane: ControlPlane) -> None:
    plane.api.apply(BROKER, named("b"))
    await plane.until(lambda: plane.ready(BROKER, "b"))

    def fail(key: Key, obj: Obj | None) -> None:
        raise ZeroDivisionError("on purpose")

    plane.context.tracker.informer(BROKER).listen(fail)
    plane.api.apply(BROKER, named("other"))
    with pytest.raises(ExceptionGroup) as ended:
        await plane.ended()
    [failure] = ended.value.exceptions
    assert isinstance(failure, ZeroDivisionError)
    assert failure.__notes__ == ["A listener failed on a change of Broker ns/other."]


async def test_subscribers_reach_a_channel_of_a_kind_with_its_own_controller(plane: ControlPlane) -> None:
    plane.api.apply(GADGET, named("g", spec={}))
    uid = plane.api.apply(SUBSCRIPTION, subscription(kind=GADGET, channel="g"))["metadata"]["uid"]

    def entries() -> list[str]:
        spec = (plane.api.get(GADGET, "ns", "g") or {})["spec"]
        return [entry["uid"] for entry in spec.get("subscribers") or []]

    await plane.until(lambda: entries() == [uid])


async def test_subscriptions_to_the_facade_and_to_the_backing_channel_live_together(plane: ControlPlane) -> None:
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(SUBSCRIPTION, subscription("facade"))
    plane.api.apply(SUBSCRIPTION, subscription("direct", IN_MEMORY_CHANNEL))
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "facade") and plane.ready(SUBSCRIPTION, "direct"))
    plane.api.remove(SUBSCRIPTION, Key("ns", "facade"))

    def left() -> list[str]:
        spec = (plane.api.get(IN_MEMORY_CHANNEL, "ns", "c") or {})["spec"]
        return [entry["name"] for entry in spec.get("subscribers") or []]

    await plane.until(lambda: left() == ["direct"])


async def test_events_tell_of_subscribers_that_come_and_go(plane: ControlPlane) -> None:
    plane.api.apply(CHANNEL, named("c"))
    plane.api.apply(SUBSCRIPTION, subscription())
    await plane.until(lambda: plane.ready(SUBSCRIPTION, "s"))
    plane.api.remove(SUBSCRIPTION, Key("ns", "s"))
    await plane.until(
        lambda: {"SubscriberSync", "SubscriberRemoved"} <= {e["reason"] for e in plane.api.all(EVENT).values()}
    )


@pytest.mark.parametrize("seed", range(5))
async def test_any_order_of_creation_and_deletion_ends_in_the_same_state(start: Starter, seed: int) -> None:
    """Deleting and re-creating in any order ends in the right state."""
    plane = await start()
    chance = random.Random(seed)
    wanted = [
        (BROKER, named("b", spec={"delivery": {"retry": 1, "deadLetterSink": {"uri": "http://dead"}}})),
        (TRIGGER, trigger("t1", subscriber={"ref": {"apiVersion": "v1", "kind": "Service", "name": "sink"}})),
        (TRIGGER, trigger("t2", delivery={"retry": 5})),
        (SERVICE, named("sink", spec={"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": 8080}]})),
        (
            POD,
            {
                "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}},
                "spec": {},
                "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
            },
        ),
        (CHANNEL, named("c")),
        (SUBSCRIPTION, subscription("s1", reply={"ref": {**_ref(BROKER), "name": "b"}})),
        (SUBSCRIPTION, subscription("s2", delivery={"deadLetterSink": SINK})),
    ]
    present: dict[tuple[Kind, str], Obj] = {}
    for _ in range(40):
        kind, obj = chance.choice(wanted)
        name = obj["metadata"]["name"]
        if (kind, name) in present:
            plane.api.remove(kind, Key("ns", name))
            del present[kind, name]
        else:
            plane.api.apply(kind, obj)
            present[kind, name] = obj
        if chance.random() < 0.3:
            await plane.settled() if chance.random() < 0.3 else await _breathe()
        if chance.random() < 0.05:
            plane = await start()
    for kind, obj in chance.sample(wanted, len(wanted)):
        if (kind, obj["metadata"]["name"]) not in present:
            plane.api.apply(kind, obj)
    for kind, name in ((TRIGGER, "t1"), (TRIGGER, "t2"), (SUBSCRIPTION, "s1"), (SUBSCRIPTION, "s2")):
        await plane.until(lambda k=kind, n=name: plane.ready(k, n))  # type: ignore[misc]
    await plane.settled()
    assert _state(plane) == EXPECTED
    assert plane.api.get(ENDPOINTS, "ns", "sink") is not None
    assert _dangling(plane) == []


def _ref(kind: Kind) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


async def _breathe() -> None:
    import asyncio

    await asyncio.sleep(0.01)


def _state(plane: ControlPlane) -> dict[str, Any]:
    """What is published, by name instead of uid."""
    found: dict[str, Any] = {}
    for record in plane.records().values():
        if isinstance(record, Route):
            subscriber = record.subscriber.url if record.subscriber else None
            reply = record.reply.url if record.reply else None
            dead = record.delivery.dead_letter.url if record.delivery.dead_letter else None
            found[f"{record.kind} {record.name}"] = (subscriber, reply, record.delivery.retry, dead)
        elif isinstance(record, Target):
            found[f"{record.kind} {record.name}"] = record.paths
        elif isinstance(record, ServiceName):
            found[record.host] = record.ports
    return found


def _dangling(plane: ControlPlane) -> list[str]:
    records = plane.records()
    return [key for key, r in records.items() if isinstance(r, Route) and f"target/{r.target}" not in records]


EXPECTED = {
    "Broker b": ("/ns/b",),
    "Channel c": ("/channels/ns/c",),
    "Trigger t1": ("http://sink.ns.svc.cluster.local", None, 1, "http://dead"),
    "Trigger t2": ("http://sink", None, 5, None),
    "Subscription s1": ("http://sink", "http://127.0.0.1:8080/ns/b", 0, None),
    "Subscription s2": ("http://sink", None, 0, "http://sink"),
    "sink.ns.svc.cluster.local": {"80": ("10.0.0.1:8080",)},
    "c-kn-channel.ns.svc.cluster.local": {"80": ("127.0.0.1:8080",), "443": ("127.0.0.1:8444",)},
    "broker-ingress.knative-eventing.svc.cluster.local": {"80": ("127.0.0.1:8080",), "443": ("127.0.0.1:8444",)},
}
