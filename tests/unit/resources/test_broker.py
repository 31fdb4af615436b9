"""Defaults, validation and status of a Broker."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from penstock.resources.broker import BrokerObservation, status_of
from penstock.resources.conditions import find
from penstock.resources.destinations import ResolvedAddress, Unresolved

Obj = dict[str, Any]
CLASS = "eventing.knative.dev/broker.class"


def broker(**spec: Any) -> Obj:
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "b"}, "spec": spec}


def test_a_broker_without_a_spec_gets_class_config_and_delivery(admit: Callable[..., Obj]) -> None:
    """Its implementation and the `spec.config` field MUST be populated."""
    bare = broker()
    del bare["spec"]
    filled = admit("Broker", bare)
    assert filled["metadata"]["annotations"][CLASS] == "Penstock"
    assert filled["spec"] == {
        "config": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "config-br-default-channel",
            "namespace": "knative-eventing",
        },
        "delivery": {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"},
    }


def test_who_created_it_is_noted(admit: Callable[..., Obj]) -> None:
    annotations = admit("Broker", broker(), user="jane")["metadata"]["annotations"]
    assert annotations["eventing.knative.dev/creator"] == "jane"
    assert annotations["eventing.knative.dev/lastModifier"] == "jane"


def test_who_changed_the_spec_is_noted_and_the_creator_stays(admit: Callable[..., Obj]) -> None:
    old = admit("Broker", broker(), user="jane")
    new = {**old, "spec": {**old["spec"], "delivery": {"retry": 1}}}
    annotations = admit("Broker", new, old, user="joe")["metadata"]["annotations"]
    assert annotations["eventing.knative.dev/creator"] == "jane"
    assert annotations["eventing.knative.dev/lastModifier"] == "joe"


def test_a_change_of_something_else_than_the_spec_leaves_the_last_modifier(admit: Callable[..., Obj]) -> None:
    old = admit("Broker", broker(), user="jane")
    annotations = admit("Broker", old, old, user="joe")["metadata"]["annotations"]
    assert annotations["eventing.knative.dev/lastModifier"] == "jane"


def test_what_the_user_gave_is_kept(admit: Callable[..., Obj]) -> None:
    given = broker(delivery={"retry": 0}, config={"apiVersion": "v1", "kind": "ConfigMap", "name": "mine"})
    given["metadata"]["annotations"] = {CLASS: "Kafka"}
    filled = admit("Broker", given)
    assert filled["metadata"]["annotations"][CLASS] == "Kafka"
    assert filled["spec"]["delivery"] == {"retry": 0}
    assert filled["spec"]["config"]["namespace"] == "default"


def test_defaults_of_the_namespace_and_the_class_come_before_those_of_the_cluster(admit: Callable[..., Obj]) -> None:
    text = yaml.safe_dump(
        {
            "clusterDefault": {"brokerClass": "Penstock", "delivery": {"retry": 10}},
            "namespaceDefaults": {
                "default": {"brokerClass": "Kafka", "brokerClasses": {"Kafka": {"delivery": {"retry": 3}}}}
            },
        }
    )
    filled = admit("Broker", broker(), configmaps={"config-br-defaults": {"default-br-config": text}})
    assert filled["metadata"]["annotations"][CLASS] == "Kafka"
    assert filled["spec"]["delivery"] == {"retry": 3}


@pytest.mark.parametrize("text", ["{", "- a", "", "42"])
def test_a_broken_configmap_leaves_the_default_class(admit: Callable[..., Obj], text: str) -> None:
    filled = admit("Broker", broker(), configmaps={"config-br-defaults": {"default-br-config": text}})
    assert filled["metadata"]["annotations"][CLASS] == "Penstock"


def test_the_class_annotation_must_be_immutable(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Broker", broker())
    new = {**old, "metadata": {**old["metadata"], "annotations": {CLASS: "Kafka"}}}
    assert refusal("Broker", new, old) == (
        'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
        'Immutable fields changed (-old +new): annotations\n{string}:\n\t-: "Penstock"\n\t+: "Kafka"\n'
    )


def test_spec_config_must_be_immutable(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Broker", broker())
    new = {**old, "spec": {**old["spec"], "config": {**old["spec"]["config"], "name": "other"}}}
    assert "Immutable fields changed (-old +new): spec\n{v1.BrokerSpec}.Config.Name:" in refusal("Broker", new, old)


def test_delivery_may_change(admit: Callable[..., Obj]) -> None:
    old = admit("Broker", broker())
    changed = admit("Broker", {**old, "spec": {**old["spec"], "delivery": {"retry": 2}}}, old)
    assert changed["spec"]["delivery"]["retry"] == 2


def test_a_config_without_a_name_is_refused(refusal: Callable[..., str]) -> None:
    text = refusal("Broker", broker(config={"kind": "ConfigMap", "apiVersion": "v1"}))
    assert text.endswith("validation failed: missing field(s): spec.config.name")


STORED = {**broker(), "metadata": {"name": "b", "namespace": "ns", "uid": "u", "generation": 3}}


def seen(**changes: Any) -> BrokerObservation:
    fields = {"addresses": (ResolvedAddress("http://h/ns/b"),), "ingress_takes_it": True, "dead_letter": None}
    return BrokerObservation(**{**fields, **changes})


def test_a_ready_broker_must_provide_a_status_address_url() -> None:
    status = status_of(STORED, seen(), "now")
    assert (find(status["conditions"], "Ready") or {})["status"] == "True"
    assert status["address"] == {"name": "http", "url": "http://h/ns/b"}
    assert status["addresses"] == [status["address"]]
    assert status["observedGeneration"] == 3


def test_of_two_addresses_the_secure_one_is_preferred_and_the_plain_one_is_what_others_see() -> None:
    both = (ResolvedAddress("https://h/ns/b", "PEM", "aud"), ResolvedAddress("http://h/ns/b"))
    status = status_of(STORED, seen(addresses=both), "now")
    plain = {"name": "http", "url": "http://h/ns/b"}
    assert status["addresses"] == [
        {"name": "https", "url": "https://h/ns/b", "CACerts": "PEM", "audience": "aud"},
        plain,
    ]
    assert status["address"] == plain


def test_the_conditions_and_their_reasons() -> None:
    conditions = {c["type"]: c for c in status_of(STORED, seen(), "now")["conditions"]}
    assert list(conditions) == [
        "Addressable",
        "ConfigParsed",
        "DeadLetterSinkResolved",
        "EventPoliciesReady",
        "IngressReady",
        "Ready",
    ]
    assert conditions["DeadLetterSinkResolved"]["reason"] == "DeadLetterSinkNotConfigured"
    assert conditions["EventPoliciesReady"]["reason"] == "OIDCDisabled"


def test_ready_is_unknown_until_the_ingress_has_taken_it_up() -> None:
    ready = find(status_of(STORED, seen(ingress_takes_it=False), "now")["conditions"], "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("Unknown", "EndpointSlicesUnavailable")


def test_the_dead_letter_sink_uri_is_reported() -> None:
    status = status_of(STORED, seen(dead_letter=ResolvedAddress("http://dls", "pem", "aud")), "now")
    assert status["deadLetterSinkUri"] == "http://dls"
    assert (status["deadLetterSinkCACerts"], status["deadLetterSinkAudience"]) == ("pem", "aud")


def test_an_unresolved_dead_letter_sink_makes_the_broker_unready() -> None:
    status = status_of(STORED, seen(dead_letter=Unresolved("nothing there")), "now")
    ready = find(status["conditions"], "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("False", "Unable to get the dead letter sink's URI")
    assert "deadLetterSinkUri" not in status
