"""The CRDs and the ConfigMaps, as they are installed."""

import json
from typing import Any

import pytest
import yaml

from penstock.resources.registry import bootstrap_configmaps, crds
from penstock.settings import Settings

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}

WIDE = ["Delivering", "Why", "Lag", "Oldest"]
"""Penstock's own, which only `kubectl get -o wide` shows."""

COLUMNS = {
    "Broker": ["URL", "Age", "Ready", "Reason", "Class"],
    "Trigger": ["Broker", "Subscriber_URI", "Age", "Ready", "Reason"],
    "Channel": ["URL", "Age", "Ready", "Reason"],
    "InMemoryChannel": ["URL", "Age", "Ready", "Reason"],
    "Subscription": ["Age", "Ready", "Reason"],
    "Sequence": ["URL", "Age", "Ready", "Reason"],
    "Parallel": ["URL", "Age", "Ready", "Reason"],
    "EventTransform": ["URL", "Sink", "Ready", "Reason"],
    "RequestReply": ["URL", "Ready", "Reason"],
    "JobSink": ["URL", "Age", "Ready", "Reason"],
    "IntegrationSink": ["URL", "Age", "Ready", "Reason"],
    "EventType": ["Type", "Source", "Reference Name", "Reference Kind", "Description", "Ready", "Reason"],
    "PingSource": ["Sink", "Schedule", "Age", "Ready", "Reason"],
    "ApiServerSource": ["Sink", "Age", "Ready", "Reason"],
    "ContainerSource": ["Sink", "Age", "Ready", "Reason"],
    "SinkBinding": ["Sink", "Age", "Ready", "Reason"],
    "IntegrationSource": ["Sink", "Age", "Ready", "Reason"],
}
CATEGORIES = {
    "Broker": ["all", "knative", "eventing"],
    "Trigger": ["all", "knative", "eventing"],
    "Channel": ["all", "knative", "messaging", "channel"],
    "InMemoryChannel": ["all", "knative", "messaging", "channel"],
    "Subscription": ["all", "knative", "messaging"],
    "Sequence": ["all", "knative", "flows"],
    "Parallel": ["all", "knative", "flows"],
    "EventType": ["all", "knative", "eventing"],
    "EventTransform": ["all", "knative", "eventing"],
    "RequestReply": ["all", "knative", "eventing"],
    "JobSink": ["all", "knative", "eventing", "sink"],
    "IntegrationSink": ["all", "knative", "eventing", "sink"],
    "PingSource": ["all", "knative", "sources"],
    "ApiServerSource": ["all", "knative", "sources"],
    "ContainerSource": ["all", "knative", "sources"],
    "IntegrationSource": ["all", "knative", "sources"],
    "SinkBinding": ["all", "knative", "sources", "bindings"],
}
SHORT = {"RequestReply": ["rr"], "Channel": ["ch"], "InMemoryChannel": ["imc"], "Subscription": ["sub"]}


def _schema(kind: str) -> dict[str, Any]:
    return dict(CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def _undescribed(schema: dict[str, Any], path: str) -> list[str]:
    found = []
    for name, child in (schema.get("properties") or {}).items():
        here = f"{path}.{name}"
        if not child.get("description") and here != ".metadata":
            found.append(here)
        found += _undescribed(child, here)
    return found + (_undescribed(schema["items"], f"{path}[]") if "items" in schema else [])


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_categories_and_short_names_are_knatives(kind: str) -> None:
    crd = CRDS[kind]
    version = crd["spec"]["versions"][0]
    shown = [column["name"] for column in version["additionalPrinterColumns"]]
    assert shown == COLUMNS[kind] + (WIDE if kind in ("Trigger", "Subscription") else [])
    assert all(column.get("priority") for column in version["additionalPrinterColumns"] if column["name"] in WIDE)
    assert crd["spec"]["names"]["categories"] == CATEGORIES[kind]
    assert crd["spec"]["names"].get("shortNames", []) == SHORT.get(kind, [])
    assert crd["spec"]["scope"] == "Namespaced"
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    "kind",
    [
        *("Broker", "Channel", "InMemoryChannel", "Sequence", "Parallel"),
        *("JobSink", "IntegrationSink", "EventTransform", "RequestReply"),
    ],
)
def test_both_broker_and_channel_must_conform_to_the_addressable_partial_schema(kind: str) -> None:
    assert CRDS[kind]["metadata"]["labels"]["duck.knative.dev/addressable"] == "true"
    address = _schema(kind)["properties"]["status"]["properties"]["address"]
    assert address["properties"]["url"]["type"] == "string"


@pytest.mark.parametrize("kind", ["Channel", "InMemoryChannel"])
def test_channels_are_labelled_subscribable(kind: str) -> None:
    assert CRDS[kind]["metadata"]["labels"]["messaging.knative.dev/subscribable"] == "true"


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_field_is_explained(kind: str) -> None:
    assert _undescribed(_schema(kind), "") == []


@pytest.mark.parametrize("kind", COLUMNS)
def test_each_user_visible_resource_must_have_a_conditions_field_in_status(kind: str) -> None:
    condition = _schema(kind)["properties"]["status"]["properties"]["conditions"]["items"]
    assert condition["required"] == ["type", "status"]
    assert set(condition["properties"]) >= {"type", "status", "reason", "message", "severity", "lastTransitionTime"}


def test_the_in_memory_channel_says_that_it_is_durable() -> None:
    assert "durable" in _schema("InMemoryChannel")["description"]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("Broker", {"config", "delivery"}),
        ("Trigger", {"broker", "brokerRef", "filter", "filters", "subscriber", "delivery"}),
        ("Channel", {"channelTemplate", "delivery", "subscribers"}),
        ("InMemoryChannel", {"delivery", "subscribers"}),
        ("Subscription", {"channel", "subscriber", "reply", "delivery"}),
    ],
)
def test_all_implementations_must_include_all_schema_fields(kind: str, fields: set[str]) -> None:
    spec = _schema(kind)["properties"]["spec"]["properties"]
    assert set(spec) == fields
    assert set(spec["delivery"]["properties"]) == {
        "deadLetterSink",
        "retry",
        "timeout",
        "backoffPolicy",
        "backoffDelay",
        "backoffMax",
        "retryAfterMax",
        "format",
    }


def test_the_caller_may_change_what_crds_returns() -> None:
    crds()[0]["spec"].clear()
    assert crds()[0]["spec"]


def test_the_configmaps_follow_the_settings() -> None:
    found = {cm["metadata"]["name"]: cm for cm in bootstrap_configmaps(Settings(default_broker_class="Kafka"))}
    ours = {"config-br-defaults", "default-ch-webhook", "config-features", "config-br-default-channel"}
    theirs = {"config-ping-defaults", "config-logging", "config-observability", "config-tracing"}
    assert set(found) == ours | theirs
    assert json.loads(found["config-logging"]["data"]["zap-logger-config"])["encoderConfig"]["messageKey"] == "msg"
    assert all(cm["metadata"]["namespace"] == "knative-eventing" for cm in found.values())
    default = yaml.safe_load(found["config-br-defaults"]["data"]["default-br-config"])["clusterDefault"]
    assert default["brokerClass"] == "Kafka"
    assert default["delivery"] == {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT0.2S"}
    assert found["config-features"]["data"]["delivery-retryafter"] == "enabled"
    assert found["config-features"]["data"]["delivery-backoff-max"] == "enabled"
