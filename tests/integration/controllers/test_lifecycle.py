"""Brokers, Triggers, Channels and Subscriptions on the real API server, with an acknowledging data plane."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.kube.kinds import (
    BROKER,
    CHANNEL,
    ENDPOINTS,
    EVENT,
    IN_MEMORY_CHANNEL,
    POD,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
    Kind,
)
from penstock.settings import Settings
from tests.integration.controllers.control_plane import Cluster, DataPlaneStandIn
from tests.waiting import eventually

SINK = {"uri": "http://127.0.0.1:9/"}
CHANNEL_REF = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}


def subscribe(channel: str, **spec: Any) -> dict[str, Any]:
    return {"channel": {**CHANNEL_REF, "name": channel}, "subscriber": SINK, **spec}


def test_a_broker_becomes_ready_and_addressable(
    cluster: Cluster, control_settings: Settings, data_plane: DataPlaneStandIn
) -> None:
    cluster.create(BROKER, "addressed")
    eventually(lambda: cluster.ready(BROKER, "addressed"))
    broker = cluster.get(BROKER, "addressed") or {}
    assert broker["status"]["address"]["url"] == f"http://127.0.0.1:{control_settings.port}/default/addressed"
    assert broker["status"]["observedGeneration"] == broker["metadata"]["generation"]
    assert data_plane.snapshot.targets[broker["metadata"]["uid"]].paths == ("/default/addressed",)


def test_a_trigger_may_be_created_before_its_broker(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    created = cluster.create(TRIGGER, "early", spec={"broker": "late", "subscriber": SINK})
    eventually(lambda: cluster.condition(TRIGGER, "early").get("reason") == "BrokerDoesNotExist")
    cluster.create(BROKER, "late")
    eventually(lambda: cluster.ready(TRIGGER, "early"))
    route = data_plane.snapshot.routes[created["metadata"]["uid"]]
    assert route.subscriber is not None
    assert route.subscriber.url == SINK["uri"]
    assert (route.delivery.retry, route.delivery.backoff_policy, route.delivery.backoff_delay) == (
        10,
        "exponential",
        0.2,
    )
    assert len(route.start) > 0


def test_ready_waits_for_the_data_plane(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    """The Trigger MUST only set Ready to true after the Broker has been configured to send all future events."""
    cluster.create(BROKER, "slow")
    eventually(lambda: cluster.ready(BROKER, "slow"))
    data_plane.holding = True
    try:
        uid = cluster.create(TRIGGER, "held", spec={"broker": "slow", "subscriber": SINK})["metadata"]["uid"]
        eventually(lambda: uid in data_plane.snapshot.routes)
        eventually(lambda: cluster.condition(TRIGGER, "held").get("reason") == "SubscriptionNotConfigured")
        assert not cluster.ready(TRIGGER, "held")
    finally:
        data_plane.holding = False
        data_plane.acknowledge()
    eventually(lambda: cluster.ready(TRIGGER, "held"))


def test_a_missing_subscriber_is_picked_up_when_it_appears(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    ref = {"apiVersion": "v1", "kind": "Service", "name": "later"}
    cluster.create(BROKER, "patient")
    uid = cluster.create(TRIGGER, "waiting", spec={"broker": "patient", "subscriber": {"ref": ref, "uri": "/in"}})[
        "metadata"
    ]["uid"]
    missing = eventually(
        lambda: (
            (found := cluster.condition(TRIGGER, "waiting", "SubscriberResolved")).get("status") == "False" and found
        )
    )
    assert missing["reason"] == "Unable to get the Subscriber's URI"
    assert missing["message"] == 'failed to get object default/later: services "later" not found'
    assert (cluster.get(TRIGGER, "waiting") or {})["status"]["subscriberUri"] == ""
    cluster.create(SERVICE, "later", spec={"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": 8080}]})
    eventually(lambda: cluster.ready(TRIGGER, "waiting"))
    url = "http://later.default.svc.cluster.local/in"
    assert (cluster.get(TRIGGER, "waiting") or {})["status"]["subscriberUri"] == url
    assert data_plane.snapshot.routes[uid].subscriber.url == url  # type: ignore[union-attr]


def test_a_failure_is_told_as_a_kubernetes_event(cluster: Cluster) -> None:
    cluster.create(TRIGGER, "alone", spec={"broker": "nobody", "subscriber": SINK})

    def told() -> bool:
        events = cluster.list(EVENT)
        return any(
            e["involvedObject"]["name"] == "alone" and e["reason"] == "BrokerDoesNotExist" and e["type"] == "Warning"
            for e in events
        )

    eventually(told)


def test_any_kind_with_an_address_can_be_a_destination(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "second"}
    cluster.create(BROKER, "first", spec={"delivery": {"deadLetterSink": {"ref": ref}}})
    eventually(lambda: cluster.condition(BROKER, "first").get("status") == "False")
    second = cluster.create(BROKER, "second")
    eventually(lambda: cluster.ready(BROKER, "first"))
    uri = (cluster.get(BROKER, "first") or {})["status"]["deadLetterSinkUri"]
    assert uri.endswith("/default/second")
    uid = cluster.create(TRIGGER, "inheriting", spec={"broker": "first", "subscriber": SINK})["metadata"]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "inheriting"))
    assert data_plane.snapshot.routes[uid].delivery.dead_letter.url == uri  # type: ignore[union-attr]
    assert second["metadata"]["uid"] in data_plane.snapshot.targets


def test_the_triggers_delivery_replaces_the_brokers_wholly(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    delivery = {"retry": 7, "deadLetterSink": {"uri": "http://127.0.0.1:9/dead"}}
    cluster.create(BROKER, "generous", spec={"delivery": delivery})
    own = {"broker": "generous", "subscriber": SINK, "delivery": {"retry": 1}}
    uid = cluster.create(TRIGGER, "own", spec=own)["metadata"]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "own"))
    found = data_plane.snapshot.routes[uid].delivery
    assert (found.retry, found.dead_letter) == (1, None)


def test_annotations_reach_the_route_and_may_change(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    cluster.create(BROKER, "tuned")
    annotations = {"penstock.dev/max-in-flight": "3", "penstock.dev/ordering": "key"}
    uid = cluster.create(TRIGGER, "tuned", annotations=annotations, spec={"broker": "tuned", "subscriber": SINK})[
        "metadata"
    ]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "tuned"))
    route = data_plane.snapshot.routes[uid]
    assert (route.max_in_flight, route.ordering, route.paused) == (3, "key", False)
    cluster.patch(TRIGGER, "tuned", {"metadata": {"annotations": {"penstock.dev/paused": "true"}}})
    eventually(lambda: data_plane.snapshot.routes[uid].paused)
    assert data_plane.snapshot.routes[uid].start == route.start


def test_a_broker_of_another_class_is_told_so_with_its_triggers(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    foreign = cluster.create(BROKER, "foreign", annotations={"eventing.knative.dev/broker.class": "RabbitMQ"})
    trigger = cluster.create(TRIGGER, "foreign", spec={"broker": "foreign", "subscriber": SINK})
    cluster.create(BROKER, "ours")
    eventually(lambda: cluster.ready(BROKER, "ours"))
    eventually(lambda: cluster.condition(BROKER, "foreign").get("reason") == "BrokerClassNotServed")
    eventually(lambda: cluster.condition(TRIGGER, "foreign").get("reason") == "BrokerClassNotServed")
    assert foreign["metadata"]["uid"] not in data_plane.snapshot.targets
    assert trigger["metadata"]["uid"] not in data_plane.snapshot.routes


def test_a_dependency_holds_a_trigger_back(cluster: Cluster) -> None:
    cluster.create(BROKER, "depended")
    annotation = '{"apiVersion":"messaging.knative.dev/v1","kind":"InMemoryChannel","name":"needed"}'
    cluster.create(
        TRIGGER,
        "depending",
        annotations={"knative.dev/dependency": annotation},
        spec={"broker": "depended", "subscriber": SINK},
    )
    eventually(lambda: cluster.condition(TRIGGER, "depending").get("reason") == "DependencyDoesNotExist")
    cluster.create(IN_MEMORY_CHANNEL, "needed")
    eventually(lambda: cluster.ready(TRIGGER, "depending"))


def test_a_channel_creates_and_owns_its_backing_channel(
    cluster: Cluster, control_settings: Settings, data_plane: DataPlaneStandIn
) -> None:
    channel = cluster.create(CHANNEL, "facade")
    eventually(lambda: cluster.ready(CHANNEL, "facade"))
    backing = cluster.get(IN_MEMORY_CHANNEL, "facade") or {}
    assert backing["metadata"]["ownerReferences"][0]["uid"] == channel["metadata"]["uid"]
    status = (cluster.get(CHANNEL, "facade") or {})["status"]
    assert status["address"]["url"] == f"http://127.0.0.1:{control_settings.port}/channels/default/facade"
    assert status["address"] == backing["status"]["address"]
    target = data_plane.snapshot.targets[backing["metadata"]["uid"]]
    assert target.hosts[0] == "facade-kn-channel.default.svc.cluster.local"
    location = data_plane.snapshot.names.locate("http://facade-kn-channel.default.svc.cluster.local/")
    assert location.url == f"http://127.0.0.1:{control_settings.port}/"
    cluster.delete(CHANNEL, "facade")
    eventually(lambda: cluster.get(IN_MEMORY_CHANNEL, "facade") is None)
    eventually(lambda: backing["metadata"]["uid"] not in data_plane.snapshot.targets)


def test_a_subscription_is_written_into_the_channel_and_marked_ready(
    cluster: Cluster, data_plane: DataPlaneStandIn
) -> None:
    uid = cluster.create(SUBSCRIPTION, "listener", spec=subscribe("topic", reply={"uri": "http://127.0.0.1:9/reply"}))[
        "metadata"
    ]["uid"]
    eventually(lambda: cluster.condition(SUBSCRIPTION, "listener").get("reason") == "ChannelReferenceFailed")
    assert cluster.condition(SUBSCRIPTION, "listener")["status"] == "Unknown"
    cluster.create(CHANNEL, "topic", spec={"delivery": {"retry": 4}})
    eventually(lambda: cluster.ready(SUBSCRIPTION, "listener"))
    for kind in (CHANNEL, IN_MEMORY_CHANNEL):
        obj = cluster.get(kind, "topic") or {}
        assert [entry["uid"] for entry in obj["spec"]["subscribers"]] == [uid]
        assert obj["status"]["subscribers"] == [{"uid": uid, "observedGeneration": 1, "ready": "True"}]
    physical = (cluster.get(SUBSCRIPTION, "listener") or {})["status"]["physicalSubscription"]
    assert physical == {"subscriberUri": SINK["uri"], "replyUri": "http://127.0.0.1:9/reply"}
    route = data_plane.snapshot.routes[uid]
    assert (route.kind, route.delivery.retry, route.reply.url) == (  # type: ignore[union-attr]
        "Subscription",
        4,
        "http://127.0.0.1:9/reply",
    )
    cluster.delete(SUBSCRIPTION, "listener")
    eventually(lambda: uid not in data_plane.snapshot.routes)
    eventually(lambda: not (cluster.get(CHANNEL, "topic") or {})["spec"].get("subscribers"))


def test_a_subscription_with_only_a_reply_is_allowed(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    cluster.create(IN_MEMORY_CHANNEL, "direct")
    spec = {
        "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel", "name": "direct"},
        "reply": SINK,
    }
    uid = cluster.create(SUBSCRIPTION, "replier", spec=spec)["metadata"]["uid"]
    eventually(lambda: cluster.ready(SUBSCRIPTION, "replier"))
    route = data_plane.snapshot.routes[uid]
    assert route.subscriber is None
    assert route.reply is not None


def test_lost_events_warn_in_the_status_and_as_an_event(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    cluster.create(BROKER, "lossy")
    uid = cluster.create(TRIGGER, "lossy", spec={"broker": "lossy", "subscriber": SINK})["metadata"]["uid"]
    eventually(lambda: cluster.ready(TRIGGER, "lossy"))
    data_plane.lose(uid, 1, 5, 9)
    found = eventually(lambda: cluster.condition(TRIGGER, "lossy", "EventsRetained"))
    assert (found["status"], found["severity"], found["reason"]) == ("False", "Warning", "EventsLost")
    assert "partition 1, offsets 5 to 9" in found["message"]
    assert cluster.ready(TRIGGER, "lossy")
    eventually(lambda: any(e["reason"] == "EventsLost" for e in cluster.list(EVENT)))


def test_a_service_leads_to_its_ready_pods(cluster: Cluster, data_plane: DataPlaneStandIn) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    cluster.create(SERVICE, "sink", spec={"selector": {"app": "sink"}, "ports": ports})
    container = {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
    eventually(lambda: cluster.get(ENDPOINTS, "sink"))
    pod = {"containers": [container]}
    cluster.create_labelled(POD, "sink-1", {"app": "sink"}, spec=pod)
    ready = {"phase": "Running", "podIP": "127.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.put_status(POD, "sink-1", ready)
    name = "http://sink.default.svc.cluster.local/x"
    eventually(lambda: _located(data_plane, name) == "http://127.0.0.9:8080/x")
    eventually(lambda: _addresses(cluster, "sink") == ["127.0.0.9"])
    cluster.delete(POD, "sink-1")
    eventually(lambda: _located(data_plane, name) is None)


def test_an_external_name_to_localhost_leads_to_a_program_on_the_machine(
    cluster: Cluster, data_plane: DataPlaneStandIn
) -> None:
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": 80, "targetPort": 3000}]}
    cluster.create(SERVICE, "laptop", spec=spec)
    eventually(lambda: _located(data_plane, "http://laptop.default.svc/a") == "http://127.0.0.1:3000/a")


def test_a_users_own_kind_is_addressable_once_it_is_defined_and_declared_so(cluster: Cluster) -> None:
    kind = Kind("example.com/v1", "Gadget")
    cluster.create(BROKER, "gadgets")
    ref = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "g"}
    cluster.create(TRIGGER, "gadgets", spec={"broker": "gadgets", "subscriber": {"ref": ref}})
    failed = eventually(
        lambda: (
            (found := cluster.condition(TRIGGER, "gadgets", "SubscriberResolved")).get("status") == "False" and found
        )
    )
    assert "gadgets.example.com is forbidden" in failed["message"]
    _define_gadget(cluster)
    cluster.create(kind, "g", spec={})
    cluster.declare_addressable("example.com", "gadgets")
    resolved = partial(cluster.condition, TRIGGER, "gadgets", "SubscriberResolved")
    eventually(lambda: "address not set" in resolved().get("message", ""))
    cluster.put_status(kind, "g", {"address": {"url": "http://gadget.example"}})
    eventually(lambda: cluster.ready(TRIGGER, "gadgets"))


def _addresses(cluster: Cluster, name: str) -> list[str]:
    """Where a Service leads, as its Endpoints say."""
    subsets = (cluster.get(ENDPOINTS, name) or {}).get("subsets") or []
    return [address["ip"] for subset in subsets for address in subset.get("addresses") or []]


def _define_gadget(cluster: Cluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    cluster.define(definition)


def _located(data_plane: DataPlaneStandIn, url: str) -> str | None:
    from penstock.contract.names import NothingThere

    try:
        return data_plane.snapshot.names.locate(url).url
    except NothingThere:
        return None
