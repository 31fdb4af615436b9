"""Defaults, validation and status of Channel, InMemoryChannel and Subscription."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from penstock.resources.admission import CONTROLLER_USER
from penstock.resources.channel import BackingChannel
from penstock.resources.channel import status_of as channel_status
from penstock.resources.conditions import find
from penstock.resources.destinations import ResolvedAddress, Unresolved
from penstock.resources.inmemorychannel import ChannelObservation
from penstock.resources.inmemorychannel import status_of as imc_status
from penstock.resources.subscription import SubscriptionObservation, subscriber_spec
from penstock.resources.subscription import status_of as subscription_status

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
REF = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}
BRANCH = {"subscriber": {"uri": "http://a"}}
ENTRY = {"uid": "s1", "name": "s", "generation": 1, "subscriberUri": "http://sink"}


def obj(kind: str, **spec: Any) -> Obj:
    return {"apiVersion": "messaging.knative.dev/v1", "kind": kind, "metadata": {"name": "c"}, "spec": spec}


def stored(kind: str, **spec: Any) -> Obj:
    return {**obj(kind, **spec), "metadata": {"name": "c", "namespace": "ns", "uid": "u", "generation": 1}}


def test_spec_channel_template_must_be_populated(admit: Callable[..., Obj]) -> None:
    filled = admit("Channel", obj("Channel"))
    assert filled["spec"]["channelTemplate"] == {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "InMemoryChannel",
    }
    assert filled["metadata"]["annotations"]["messaging.knative.dev/subscribable"] == "v1"


def test_the_template_may_differ_by_namespace(admit: Callable[..., Obj]) -> None:
    other = {"apiVersion": "example.com/v1", "kind": "KafkaChannel", "spec": {"numPartitions": 3}}
    text = yaml.safe_dump({"namespaceDefaults": {"default": other}})
    configmaps = {"default-ch-webhook": {"default-ch-config": text}}
    assert admit("Channel", obj("Channel"), configmaps=configmaps)["spec"]["channelTemplate"] == other


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("eventing.knative.dev/v1", "Trigger"),
        ("messaging.knative.dev/v1", "Subscription"),
        ("messaging.knative.dev/v1", "subscription"),
        ("serving.knative.dev/v1", "Service"),
        ("penstock.dev/v1alpha1", "Replay"),
    ],
)
@pytest.mark.parametrize("of", ["Channel", "Sequence", "Parallel"])
def test_spec_channel_template_names_a_kind_of_channel(
    refusal: Callable[..., str], of: str, version: str, kind: str
) -> None:
    made = obj(of, channelTemplate={"apiVersion": version, "kind": kind, "spec": {}})
    made["spec"] |= {"Channel": {}, "Sequence": {"steps": [{"uri": "http://a"}]}}.get(of, {"branches": [BRANCH]})
    made["apiVersion"] = "messaging.knative.dev/v1" if of == "Channel" else "flows.knative.dev/v1"
    complaint = f"invalid value: {kind}: spec.channelTemplate.kind\n{kind} of {version} is not a kind of channel"
    assert refusal(of, made) == DENIED + complaint


def test_spec_channel_template_must_be_immutable(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Channel", obj("Channel"))
    new = obj("Channel", channelTemplate={"apiVersion": "example.com/v1", "kind": "KafkaChannel"})
    text = refusal("Channel", new, old)
    assert text.startswith(DENIED + "Immutable fields changed (-old +new): spec\n{v1.ChannelSpec}.ChannelTemplate.")


def test_delivery_of_a_channel_is_immutable_too(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Channel", obj("Channel"))
    assert "Immutable fields changed" in refusal("Channel", obj("Channel", delivery={"retry": 1}), old)


def test_subscribers_must_be_managed_by_the_controller(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    text = refusal("Channel", obj("Channel", subscribers=[ENTRY]))
    assert text == DENIED + "must not set the field(s): spec.subscribable.subscribers"
    old = admit("Channel", obj("Channel", subscribers=[ENTRY]), user=CONTROLLER_USER)
    admit("Channel", old, old, user="jane")


def test_only_the_controller_changes_subscribers_of_an_in_memory_channel(
    admit: Callable[..., Obj], refusal: Callable[..., str]
) -> None:
    old = admit("InMemoryChannel", obj("InMemoryChannel"))
    new = obj("InMemoryChannel", subscribers=[ENTRY])
    admit("InMemoryChannel", new, old, user=CONTROLLER_USER)
    text = refusal("InMemoryChannel", new, old, user="jane")
    assert text.startswith('admission webhook "validation.inmemorychannel.eventing.knative.dev" denied the request: ')
    assert f"changed by user jane which was not the {CONTROLLER_USER} service account: spec.subscribers" in text


def test_an_in_memory_channel_is_created_without_subscribers(
    admit: Callable[..., Obj], refusal: Callable[..., str]
) -> None:
    new = obj("InMemoryChannel", subscribers=[ENTRY])
    assert refusal("InMemoryChannel", new, user="jane").endswith(
        "validation failed: must not set the field(s): spec.subscribable.subscribers"
    )
    admit("InMemoryChannel", new, user=CONTROLLER_USER)


@pytest.mark.parametrize("kind", ["Channel", "InMemoryChannel"])
@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("auth.serviceAccountName", {"auth": {"serviceAccountName": "../../x/serviceaccounts/y"}}),
        ("name", {"name": "../../x/serviceaccounts/y"}),
    ],
)
def test_names_in_a_subscriber_entry_are_names_of_objects(
    refusal: Callable[..., str], kind: str, path: str, entry: Obj
) -> None:
    new = obj(kind, subscribers=[{**ENTRY, **entry}])
    expected = f"invalid value: ../../x/serviceaccounts/y: spec.subscribable.subscriber[0].{path}"
    assert expected in refusal(kind, new, user=CONTROLLER_USER)
    old = obj(kind, channelTemplate=REF, subscribers=[ENTRY])
    assert expected in refusal(kind, {**new, "spec": {**old["spec"], **new["spec"]}}, old, user=CONTROLLER_USER)


def test_a_subscriber_entry_needs_an_address(refusal: Callable[..., str]) -> None:
    text = refusal("InMemoryChannel", obj("InMemoryChannel", subscribers=[{"uid": "x"}]), user=CONTROLLER_USER)
    assert "missing field(s): spec.subscribable.subscriber[0].replyURI, spec.subscribable.subscriber[0]." in text


def test_the_scope_annotation_is_checked(refusal: Callable[..., str]) -> None:
    channel = obj("InMemoryChannel")
    channel["metadata"]["annotations"] = {"eventing.knative.dev/scope": "galaxy"}
    assert "expected either 'cluster' or 'namespace'" in refusal("InMemoryChannel", channel)


def test_a_subscription_needs_a_channel(refusal: Callable[..., str]) -> None:
    text = refusal("Subscription", obj("Subscription", subscriber={"uri": "http://s"}))
    assert text == DENIED + "missing field(s): spec.channel\nthe Subscription must reference a channel"


def test_at_least_one_of_subscriber_and_reply_must_be_set(
    admit: Callable[..., Obj], refusal: Callable[..., str]
) -> None:
    text = refusal("Subscription", obj("Subscription", channel=REF, subscriber={}))
    assert text.startswith(DENIED + "missing field(s): spec.reply, spec.subscriber\n")
    admit("Subscription", obj("Subscription", channel=REF, reply={"uri": "http://r"}))


def test_a_subscriber_is_asked_for_where_the_feature_says_so(refusal: Callable[..., str]) -> None:
    only_reply = obj("Subscription", channel=REF, reply={"uri": "http://r"})
    text = refusal("Subscription", only_reply, features={"strict-subscriber": "enabled"})
    assert text == DENIED + "missing field(s): spec.subscriber\nthe Subscription must reference a subscriber"


def test_spec_channel_must_be_in_the_same_namespace(refusal: Callable[..., str]) -> None:
    elsewhere = obj("Subscription", channel={**REF, "namespace": "x"}, subscriber={"uri": "http://s"})
    assert refusal("Subscription", elsewhere) == (
        DENIED + "must not set the field(s): spec.channel.namespace\n"
        "only name, apiVersion and kind are supported fields when feature.CrossNamespaceEventLinks is disabled"
    )


def test_spec_channel_must_not_permit_updates(admit: Callable[..., Obj], refusal: Callable[..., str]) -> None:
    old = admit("Subscription", obj("Subscription", channel=REF, subscriber={"uri": "http://s"}))
    new = obj("Subscription", channel={**REF, "name": "d"}, subscriber={"uri": "http://s"})
    assert refusal("Subscription", new, old) == (
        DENIED + 'Immutable fields changed (-old +new): spec\n{v1.SubscriptionSpec}.Channel.Name:\n\t-: "c"\n\t+: "d"\n'
    )


def test_changes_to_subscriber_reply_and_delivery_should_be_permitted(admit: Callable[..., Obj]) -> None:
    old = admit("Subscription", obj("Subscription", channel=REF, subscriber={"uri": "http://s"}))
    new = obj("Subscription", channel=REF, reply={"uri": "http://r"}, delivery={"retry": 1})
    assert admit("Subscription", new, old)["spec"] == new["spec"]


def imc_seen(**changes: Any) -> ChannelObservation:
    fields = {
        "addresses": (ResolvedAddress("http://h/channels/ns/c"),),
        "ingress_takes_it": True,
        "dead_letter": None,
        "taken": {},
    }
    return ChannelObservation(**{**fields, **changes})


def test_a_channel_must_publish_a_url_when_it_is_able_to_receive_events() -> None:
    status = imc_status(stored("InMemoryChannel"), imc_seen(), "now")
    assert (find(status["conditions"], "Ready") or {})["status"] == "True"
    assert status["address"]["url"] == "http://h/channels/ns/c"
    waiting = imc_status(stored("InMemoryChannel"), imc_seen(ingress_takes_it=False), "now")
    assert (find(waiting["conditions"], "Ready") or {})["status"] == "Unknown"


def test_subscribers_are_marked_ready_once_the_data_plane_took_them() -> None:
    channel = stored("InMemoryChannel", subscribers=[ENTRY])
    (state,) = imc_status(channel, imc_seen(taken={"s1": True}), "now")["subscribers"]
    assert state == {"uid": "s1", "observedGeneration": 1, "ready": "True"}
    (state,) = imc_status(channel, imc_seen(), "now")["subscribers"]
    assert state["ready"] == "Unknown"


BACKING = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel", "name": "c", "namespace": "ns"}


def test_a_subscriber_that_gets_nothing_is_not_ready_and_says_why() -> None:
    channel = stored("InMemoryChannel", subscribers=[ENTRY])
    (state,) = imc_status(channel, imc_seen(taken={"s1": True}, refused={"s1": "why"}), "now")["subscribers"]
    assert (state["ready"], state["message"]) == ("False", "why")


def test_a_channel_copies_what_its_backing_channel_says() -> None:
    theirs = imc_status(stored("InMemoryChannel", subscribers=[ENTRY]), imc_seen(taken={"s1": True}), "now")
    status = channel_status(stored("Channel"), BackingChannel(BACKING, {"status": theirs}), "now")
    assert (find(status["conditions"], "Ready") or {})["status"] == "True"
    for name in ("address", "addresses", "subscribers"):
        assert status[name] == theirs[name]
    assert status["channel"] == BACKING


@pytest.mark.parametrize(
    ("backing", "kind", "reason"),
    [
        (BackingChannel(BACKING, None), "BackingChannelReady", "BackingChannelNotConfigured"),
        (BackingChannel(BACKING, None, "no such kind"), "BackingChannelReady", "ChannelFailure"),
        (BackingChannel(BACKING, {"status": {}}), "Addressable", "EmptyHostname"),
    ],
)
def test_a_channel_without_its_backing_channel_is_not_ready(backing: BackingChannel, kind: str, reason: str) -> None:
    conditions = channel_status(stored("Channel"), backing, "now")["conditions"]
    assert (find(conditions, kind) or {})["reason"] == reason
    assert (find(conditions, "Ready") or {})["status"] != "True"


def test_a_dead_letter_sink_that_the_backing_channel_has_not_resolved_is_named() -> None:
    channel = stored("Channel", delivery={"deadLetterSink": {"uri": "http://d"}})
    reconciled = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    conditions = channel_status(channel, BackingChannel(BACKING, reconciled), "now")["conditions"]
    reason = (find(conditions, "DeadLetterSinkResolved") or {})["reason"]
    assert reason == "Backing Channel c didn't set status.deadLetterSinkURI"
    conditions = channel_status(channel, BackingChannel(BACKING, {"status": {}}), "now")["conditions"]
    assert (find(conditions, "DeadLetterSinkResolved") or {})["status"] == "Unknown", "it was not looked at yet"


SUBSCRIPTION = {**obj("Subscription"), "metadata": {"name": "s", "namespace": "ns", "uid": "s1", "generation": 1}}
READY_CHANNEL = {
    "metadata": {"name": "c"},
    "spec": {"subscribers": [ENTRY]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "subscribers": [{"uid": "s1", "observedGeneration": 1, "ready": "True"}],
    },
}


def sub_seen(**changes: Any) -> SubscriptionObservation:
    fields = {
        "channel": READY_CHANNEL,
        "channel_failure": "",
        "subscriber": ResolvedAddress("http://sink"),
        "reply": None,
        "dead_letter": None,
    }
    return SubscriptionObservation(**{**fields, **changes})


def sub_ready(seen: SubscriptionObservation) -> Obj:
    return dict(find(subscription_status(SUBSCRIPTION, seen, "now")["conditions"], "Ready") or {})


def test_a_subscription_must_set_its_physical_subscription_before_it_is_ready() -> None:
    seen = sub_seen(reply=ResolvedAddress("http://r", audience="a"), dead_letter=ResolvedAddress("http://d"))
    status = subscription_status(SUBSCRIPTION, seen, "now")
    assert sub_ready(seen)["status"] == "True"
    assert status["physicalSubscription"] == {
        "subscriberUri": "http://sink",
        "replyUri": "http://r",
        "replyAudience": "a",
        "deadLetterSinkUri": "http://d",
    }


def test_if_the_channel_does_not_exist_ready_must_not_be_true() -> None:
    found = sub_ready(sub_seen(channel=None, channel_failure='channels.messaging.knative.dev "c" not found'))
    assert (found["status"], found["reason"]) == ("Unknown", "ChannelReferenceFailed")


def test_if_the_channel_is_not_ready_ready_must_not_be_true() -> None:
    unready = {**READY_CHANNEL, "status": {**READY_CHANNEL["status"], "conditions": []}}  # type: ignore[dict-item]
    assert sub_ready(sub_seen(channel=unready))["status"] != "True"


@pytest.mark.parametrize(
    ("field", "uri", "reason"),
    [
        ("subscriber", "subscriberUri", "SubscriberResolveFailed"),
        ("reply", "replyUri", "ReplyResolveFailed"),
        ("dead_letter", "deadLetterSinkUri", "DeadLetterSinkResolveFailed"),
    ],
)
def test_if_an_address_fails_resolution_ready_must_be_false_and_the_uri_empty(
    field: str, uri: str, reason: str
) -> None:
    seen = sub_seen(**{field: Unresolved("nothing there")})
    found = sub_ready(seen)
    assert (found["status"], found["reason"]) == ("False", reason)
    assert "nothing there" in found["message"]
    assert subscription_status(SUBSCRIPTION, seen, "now")["physicalSubscription"][uri] == ""
    assert subscriber_spec(SUBSCRIPTION, seen, {}) is None


def test_ready_waits_for_the_channel_to_mark_the_subscription() -> None:
    unmarked = {**READY_CHANNEL, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    found = sub_ready(sub_seen(channel=unmarked))
    assert (found["status"], found["reason"]) == ("Unknown", "SubscriptionNotMarkedReadyByChannel")
    assert found["message"] == (
        'Failed to get subscription status: subscription "s" not present in channel "c" subscriber\'s list'
    )


def test_an_older_generation_in_the_channel_does_not_count() -> None:
    newer = {**SUBSCRIPTION, "metadata": {**SUBSCRIPTION["metadata"], "generation": 2}}
    conditions = subscription_status(newer, sub_seen(), "now")["conditions"]
    assert (find(conditions, "AddedToChannel") or {})["status"] == "Unknown"
    assert (find(conditions, "Ready") or {})["status"] == "Unknown"


def test_the_entry_for_the_channel_has_the_dead_letter_sink_in_uri_form() -> None:
    entry = subscriber_spec(
        SUBSCRIPTION,
        sub_seen(dead_letter=ResolvedAddress("http://d", "pem")),
        {"retry": 2, "deadLetterSink": {"ref": {"name": "d"}}},
    )
    assert entry == {
        "name": "s",
        "uid": "s1",
        "generation": 1,
        "subscriberUri": "http://sink",
        "delivery": {"retry": 2, "deadLetterSink": {"uri": "http://d", "CACerts": "pem"}},
    }
