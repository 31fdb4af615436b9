"""Defaults, validation and status of a Trigger."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.delivery_status import DeliveryState
from penstock.resources.destinations import ResolvedAddress, Unresolved, is_expiring
from penstock.resources.trigger import (
    TriggerObservation,
    dependency_finding,
    missing_dependency,
    no_dependency,
    status_of,
)
from penstock.settings import Settings

Obj = dict[str, Any]
URI = {"uri": "http://sink"}
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '


def trigger(annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    spec = {"broker": "default", "subscriber": URI, **spec}
    metadata: Obj = {"name": "t", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": metadata, "spec": spec}


def test_filter_label_and_namespaces_are_filled_in(admit: Callable[..., Obj]) -> None:
    ref = {"apiVersion": "v1", "kind": "Service", "name": "s"}
    filled = admit("Trigger", trigger(subscriber={"ref": ref}, delivery={"deadLetterSink": {"ref": ref}}))
    assert filled["spec"]["filter"] == {}
    assert filled["metadata"]["labels"] == {"eventing.knative.dev/broker": "default"}
    assert filled["spec"]["subscriber"]["ref"]["namespace"] == "default"
    assert filled["spec"]["delivery"]["deadLetterSink"]["ref"]["namespace"] == "default"


def test_a_trigger_must_name_a_broker(refusal: Callable[..., str]) -> None:
    assert refusal("Trigger", trigger(broker="")) == DENIED + "missing field(s): spec.broker"


def test_a_trigger_must_be_assigned_to_exactly_one_broker(refusal: Callable[..., str]) -> None:
    text = refusal("Trigger", trigger(brokerRef={"name": "x"}))
    assert text == DENIED + "expected exactly one, got both: spec.broker, spec.brokerRef"


def test_a_subscriber_is_required(refusal: Callable[..., str]) -> None:
    text = refusal("Trigger", trigger(subscriber={}))
    assert text == DENIED + "expected at least one, got none: spec.subscriber.ref, spec.subscriber.uri"


def test_spec_broker_must_not_permit_updates(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Trigger", trigger())
    text = refusal("Trigger", trigger(broker="other"), old)
    assert text == (
        DENIED + 'Immutable fields changed (-old +new): broker, spec\n{string}:\n\t-: "default"\n\t+: "other"\n'
    )


def test_changes_to_subscriber_and_filter_should_be_permitted(admit: Callable[..., Obj]) -> None:
    old = admit("Trigger", trigger())
    new = trigger(subscriber={"uri": "http://other"}, filter={"attributes": {"type": "x"}})
    assert admit("Trigger", new, old)["spec"] == {"broker": "default", **new["spec"]}


@pytest.mark.parametrize(
    "name", ["type", "source", "id", "specversion", "subject", "dataschema", "time", "ext", "a1", "partitionkey"]
)
def test_valid_attribute_names_are_kept(admit: Callable[..., Obj], name: str) -> None:
    filled = admit("Trigger", trigger(filter={"attributes": {name: "v"}}))
    assert filled["spec"]["filter"]["attributes"] == {name: "v"}


@pytest.mark.parametrize("name", ["0invalid", "Invalid", "in-valid", "in valid", "in.valid", "_a", "", "ä", "a\n"])
def test_invalid_attribute_names_are_refused(refusal: Callable[..., str], name: str) -> None:
    text = refusal("Trigger", trigger(filter={"attributes": {name: "v"}}))
    rule = "Attribute name must start with a letter and can only contain lowercase alphanumeric"
    assert text == f'{DENIED}invalid key name "{name}": spec.filter.attributes[{name}]\n{rule}'


def test_a_filter_has_one_dialect(refusal: Callable[..., str]) -> None:
    text = refusal("Trigger", trigger(filters=[{"exact": {"type": "a"}, "prefix": {"type": "b"}}]))
    assert text == DENIED + "multiple dialects found, filters can have only one dialect set: spec.filters[0]"


def test_nested_filters_are_checked(refusal: Callable[..., str]) -> None:
    text = refusal("Trigger", trigger(filters=[{"all": [{"not": {"exact": {"Bad": "x"}}}]}]))
    assert 'invalid key name "Bad": spec.filters[0].all[0].not.exact[Bad]' in text


def test_filters_nested_without_end_are_refused(refusal: Callable[..., str]) -> None:
    nested: Obj = {"exact": {"type": "x"}}
    for _ in range(100):
        nested = {"not": nested}
    assert "nested deeper" in refusal("Trigger", trigger(filters=[nested]))


def test_a_filter_on_data_is_kept_as_it_is(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    filters = [{"not": {"data": {"order.total": {"gte": 100, "lt": 500.5}, "order.paid": True}}}]
    assert admit("Trigger", trigger(filters=filters))["spec"]["filters"] == filters
    text = refusal("Trigger", trigger(filters=[{"data": {"order.total": {"above": 1}}}]))
    rule = "operators are prefix, suffix, gt, gte, lt, lte, in, exists"
    assert text == f"{DENIED}must not set the field(s): spec.filters[0].data[order.total].above\n{rule}"


def test_filters_on_data_can_be_turned_off(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    off = Settings(filters_on_data=False)
    admit("Trigger", trigger(filters=[{"exact": {"type": "a"}}]), settings=off)
    text = refusal("Trigger", trigger(filters=[{"any": [{"data": {"a": 1}}]}]), settings=off)
    why = "filters on data are turned off here: see the setting filters_on_data"
    assert text == f"{DENIED}must not set the field(s): spec.filters[0].any[0].data\n{why}"


def test_cesql_must_parse(refusal: Callable[..., str], admit: Callable[..., Obj]) -> None:
    admit("Trigger", trigger(filters=[{"cesql": "type = 'a'"}]))
    text = refusal("Trigger", trigger(filters=[{"cesql": "type ="}]))
    assert text.startswith(DENIED + "invalid value: type =: spec.filters[0].cesql\nthe expression ends too early")


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("{", "The provided annotation was not a corev1.ObjectReference"),
        ("[]", "The provided annotation was not a corev1.ObjectReference"),
        (
            '{"kind":"PingSource","name":"p"}',
            "missing field(s): metadata.annotations[knative.dev/dependency].apiVersion",
        ),
        (
            '{"kind":"P","name":"p","apiVersion":"v1","namespace":"elsewhere"}',
            'Namespace must be empty or equal to the trigger namespace "default"',
        ),
    ],
)
def test_the_dependency_annotation_must_be_a_local_reference(
    refusal: Callable[..., str], annotation: str, message: str
) -> None:
    assert message in refusal("Trigger", trigger({"knative.dev/dependency": annotation}))


@pytest.mark.parametrize(("broker", "value"), [("default", "yes"), ("other", "enabled")])
def test_the_injection_annotation_is_checked(refusal: Callable[..., str], broker: str, value: str) -> None:
    text = refusal("Trigger", trigger({"eventing.knative.dev/injection": value}, broker=broker))
    assert "injection annotation" in text


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("max-in-flight", ["1", "100000"], ["0", "-1", "many", "1.5", "", "100001", "²"]),
        ("ordering", ["unordered", "key"], ["Key", "strict", ""]),
        ("paused", ["true", "false"], ["yes", "True", ""]),
    ],
)
def test_invalid_values_of_our_annotations_are_refused(
    admit: Callable[..., Obj], refusal: Callable[..., str], name: str, good: list[str], bad: list[str]
) -> None:
    for value in good:
        admit("Trigger", trigger({f"penstock.dev/{name}": value}))
    for value in bad:
        text = refusal("Trigger", trigger({f"penstock.dev/{name}": value}))
        assert f"invalid value: {value}: metadata.annotations[penstock.dev/{name}]\nexpected" in text


STORED: Obj = {**trigger(), "metadata": {"name": "t", "namespace": "ns", "uid": "u", "generation": 2}}
READY_BROKER = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def seen(**changes: Any) -> TriggerObservation:
    fields = {
        "broker_name": "default",
        "broker": READY_BROKER,
        "subscriber": ResolvedAddress("http://sink"),
        "dead_letter": None,
        "dependency": no_dependency(),
        "taken": True,
    }
    return TriggerObservation(**{**fields, **changes})


def ready(observation: TriggerObservation) -> Obj:
    return dict(find(status_of(STORED, observation, "now")["conditions"], "Ready") or {})


def test_a_ready_trigger_should_indicate_its_subscriber_uri() -> None:
    status = status_of(STORED, seen(), "now")
    assert ready(seen())["status"] == "True"
    assert status["subscriberUri"] == "http://sink"
    assert status["observedGeneration"] == 2
    assert [c["type"] for c in status["conditions"]] == [
        "BrokerReady",
        "DeadLetterSinkResolved",
        "DependencyReady",
        "OIDCIdentityCreated",
        "Ready",
        "SubscriberResolved",
        "SubscriptionReady",
    ]


def test_if_the_broker_does_not_exist_ready_must_be_false() -> None:
    found = ready(seen(broker=None))
    assert (found["status"], found["reason"]) == ("False", "BrokerDoesNotExist")
    assert found["message"] == 'Broker "default" does not exist'


@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        ({}, "BrokerNotConfigured"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Waiting"}]}}, "Waiting"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]}}, "Broken"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "BrokerNotReady"),
    ],
)
def test_if_the_broker_is_not_ready_ready_must_be_false(broker: Obj, reason: str) -> None:
    found = ready(seen(broker=broker))
    assert (found["status"], found["reason"]) == ("False", reason)


def test_if_the_subscriber_cannot_be_resolved_ready_must_be_false_and_the_uri_empty() -> None:
    observation = seen(subscriber=Unresolved("no such thing"), taken=False)
    found = ready(observation)
    assert (found["status"], found["reason"]) == ("False", "Unable to get the Subscriber's URI")
    assert found["message"] == "no such thing"
    assert status_of(STORED, observation, "now")["subscriberUri"] == ""


def test_ready_must_only_be_true_after_the_broker_has_been_configured() -> None:
    found = ready(seen(taken=False))
    assert (found["status"], found["reason"]) == ("Unknown", "SubscriptionNotConfigured")


def test_the_dead_letter_sink_is_reported_in_the_same_manner() -> None:
    assert status_of(STORED, seen(dead_letter=ResolvedAddress("http://d")), "now")["deadLetterSinkUri"] == "http://d"
    failed = seen(dead_letter=Unresolved("gone"))
    assert ready(failed)["status"] == "False"
    assert status_of(STORED, failed, "now")["deadLetterSinkUri"] == ""


def test_a_filter_that_the_router_cannot_do_makes_it_unready_once_that_is_known() -> None:
    found = ready(seen(refused="its filter is too much"))
    assert (found["status"], found["reason"]) == ("False", "FilterNotRoutable")
    assert "its filter is too much" in found["message"]
    assert ready(seen(taken=False, refused="the filter before was too much"))["status"] == "Unknown"


def test_a_trigger_that_is_too_large_for_a_record_says_so() -> None:
    found = ready(seen(taken=False, left_out="Its record has 3000000 bytes"))
    assert (found["status"], found["reason"]) == ("False", "RouteTooLarge")
    assert "3000000 bytes" in found["message"]


def test_lost_events_warn_and_leave_ready_alone() -> None:
    observation = seen(losses=("partition 0, offsets 3 to 7",))
    warning = find(status_of(STORED, observation, "now")["conditions"], "EventsRetained") or {}
    assert (warning["status"], warning["severity"], warning["reason"]) == ("False", "Warning", "EventsLost")
    assert "offsets 3 to 7" in warning["message"]
    assert ready(observation)["status"] == "True"


def test_a_loss_to_come_warns_and_leaves_ready_alone() -> None:
    observation = seen(delivery=DeliveryState(lag=3, expiring=True))
    warning = find(status_of(STORED, observation, "now")["conditions"], "EventsRetained") or {}
    assert (warning["status"], warning["severity"], warning["reason"]) == ("Unknown", "Warning", "EventsExpiring")
    assert "Resume the route" in warning["message"]
    assert ready(observation)["status"] == "True"
    assert is_expiring(warning)
    both = seen(delivery=DeliveryState(lag=3, expiring=True), losses=("partition 0, offsets 3 to 7",))
    warning = find(status_of(STORED, both, "now")["conditions"], "EventsRetained") or {}
    assert (warning["status"], warning["reason"], is_expiring(warning)) == ("False", "EventsLost", True)
    assert find(status_of(STORED, seen(delivery=DeliveryState(lag=3)), "now")["conditions"], "EventsRetained") is None


def test_a_dependency_that_is_not_there_makes_it_unready() -> None:
    found = ready(seen(dependency=missing_dependency("x not found")))
    assert (found["status"], found["reason"]) == ("False", "DependencyDoesNotExist")


@pytest.mark.parametrize(
    ("dependency", "status", "reason"),
    [
        ({}, "Unknown", "DependencyNotConfigured"),
        ({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}, "Unknown", "GenerationNotEqual"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "True", ""),
        ({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R"}]}}, "False", "R"),
    ],
)
def test_the_dependency_is_as_ready_as_it_says(dependency: Obj, status: str, reason: str) -> None:
    found = dependency_finding(json.loads(json.dumps(dependency)))
    assert (found.status, found.reason) == (status, reason)
