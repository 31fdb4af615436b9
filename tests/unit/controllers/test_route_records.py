"""Records made from objects."""

from typing import Any

from penstock.contract.routes import Delivery, Endpoint
from penstock.controllers.routes.route_records import (
    broker_target,
    channel_target,
    ingress_name,
    subscription_route,
    trigger_route,
)
from penstock.resources.delivery import RouteOptions
from penstock.resources.destinations import ResolvedAddress
from penstock.resources.metadata import ObjectIdentity
from penstock.resources.trigger import Trigger
from penstock.settings import Settings

IDENTITY = ObjectIdentity("ns", "x", "u", 4)


def trigger(**spec: Any) -> Trigger:
    annotations = {"penstock.dev/max-in-flight": "2", "penstock.dev/paused": "true"}
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "generation": 4, "annotations": annotations}
    return Trigger.read({"metadata": metadata, "spec": spec})


def test_a_broker_is_reached_by_its_path() -> None:
    target = broker_target(IDENTITY)
    assert (target.kind, target.paths, target.hosts) == ("Broker", ("/ns/x",), ())


def test_a_channel_is_reached_by_its_path_and_by_the_host_that_manifests_hard_code() -> None:
    target = channel_target(IDENTITY)
    assert target.paths == ("/channels/ns/x",)
    assert target.hosts == ("x-kn-channel.ns.svc.cluster.local", "x-kn-channel.ns.svc", "x-kn-channel.ns")


def test_a_fixed_name_leads_to_the_ingress_on_this_machine() -> None:
    here = {"80": ("127.0.0.1:8080",), "443": ("127.0.0.1:8444",)}
    assert ingress_name("h", Settings()).ports == here
    assert ingress_name("h", Settings(host="0.0.0.0")).ports == here
    named = Settings(address_base="http://events.example")
    assert ingress_name("h", named).ports == {"80": ("events.example:80",), "443": ("events.example:8444",)}
    twice = Settings(address_base="http://e.example:81", tls_address_base="https://s.example")
    assert ingress_name("h", twice).ports == {"80": ("e.example:81",), "443": ("s.example:443",)}


def test_a_trigger_route_has_durations_in_seconds_and_the_dead_letter_sink_resolved() -> None:
    filters = [{"exact": {"type": "a"}}]
    delivery = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT2S", "timeout": "PT1M", "format": "json"}
    delivery |= {"retryAfterMax": "PT10S", "backoffMax": "PT5S"}
    route = trigger_route(
        trigger(broker="b", filter={"attributes": {"source": "s"}}, filters=filters),
        "broker-uid",
        ResolvedAddress("http://sink", "pem", "aud"),
        delivery,
        ResolvedAddress("http://dead"),
    )
    assert (route.target, route.generation, route.attributes, route.filters) == (
        "broker-uid",
        4,
        {"source": "s"},
        filters,
    )
    assert route.subscriber == Endpoint("http://sink", "pem", "aud")
    assert route.delivery == Delivery(3, "linear", 2, 5, 60, 10, "json", Endpoint("http://dead"))
    assert (route.max_in_flight, route.ordering, route.paused) == (2, "unordered", True)


def test_a_subscription_route_comes_from_its_entry_in_the_channel() -> None:
    entry = {
        "uid": "another",
        "name": "another",
        "auth": {"serviceAccountName": "another"},
        "generation": 2,
        "subscriberUri": "http://sink",
        "replyUri": "http://reply",
        "replyCACerts": "pem",
        "delivery": {"retry": 1, "deadLetterSink": {"uri": "http://dead", "audience": "a"}},
    }
    subscription = ObjectIdentity("elsewhere", "s", "s1")
    route = subscription_route(entry, IDENTITY, subscription, RouteOptions(ordering="key"), account="own")
    assert (route.uid, route.kind, route.namespace, route.name, route.target) == (
        "s1",
        "Subscription",
        "elsewhere",
        "s",
        "u",
    )
    assert route.account == "own"
    assert route.reply == Endpoint("http://reply", "pem")
    assert route.delivery == Delivery(1, dead_letter=Endpoint("http://dead", None, "a"))
    assert (route.attributes, route.filters, route.ordering) == ({}, [], "key")
