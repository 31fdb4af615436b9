"""Defaults, validation, wiring and status of Sequence and Parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from penstock.resources.conditions import find
from penstock.resources.parallel import Parallel, ParallelObservation
from penstock.resources.parallel import status_of as parallel_status
from penstock.resources.sequence import Sequence, SequenceObservation
from penstock.resources.sequence import status_of as sequence_status

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
IMC = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "s"}


def flow(kind: str, **spec: Any) -> Obj:
    metadata = {"name": "f", "namespace": "ns", "uid": "u", "generation": 3}
    return {"apiVersion": "flows.knative.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}


def test_a_flow_takes_the_kind_of_channel_of_its_namespace(admit: Callable[..., Obj]) -> None:
    sequence = admit("Sequence", flow("Sequence", steps=[{"ref": SERVICE}], reply={"ref": SERVICE}))
    assert sequence["spec"]["channelTemplate"] == IMC
    assert sequence["spec"]["steps"][0]["ref"]["namespace"] == sequence["spec"]["reply"]["ref"]["namespace"] == "ns"
    other = {"apiVersion": "example.com/v1", "kind": "KafkaChannel", "spec": {"numPartitions": 3}}
    configmaps = {"default-ch-webhook": {"default-ch-config": yaml.safe_dump({"namespaceDefaults": {"ns": other}})}}
    branches = [{"filter": {"ref": SERVICE}, "subscriber": {"ref": SERVICE}, "reply": {"ref": SERVICE}}]
    parallel = admit("Parallel", flow("Parallel", branches=branches), configmaps=configmaps)
    assert parallel["spec"]["channelTemplate"] == other
    assert {part["ref"]["namespace"] for part in parallel["spec"]["branches"][0].values()} == {"ns"}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("Sequence", {}, "missing field(s): spec.steps"),
        ("Sequence", {"steps": []}, "missing field(s): spec.steps"),
        ("Sequence", {"steps": [{}]}, "invalid value: {{<nil> <nil> <nil> <nil>} <nil>}: spec.steps[0]"),
        (
            "Sequence",
            {"steps": [{"uri": "http://ok", "delivery": {"backoffPolicy": "sometimes"}}]},
            'invalid value: {{<nil> http://ok <nil> <nil>} {"backoffPolicy":"sometimes"}}: spec.steps[0]',
        ),
        (
            "Sequence",
            {"steps": [{"uri": "http://ok"}], "channelTemplate": {"kind": "X"}},
            "missing field(s): spec.channelTemplate.apiVersion",
        ),
        (
            "Sequence",
            {"steps": [{"uri": "http://ok"}], "reply": {}},
            "expected at least one, got none: spec.reply.ref, spec.reply.uri",
        ),
        ("Parallel", {}, "missing field(s): spec.branches"),
        (
            "Parallel",
            {"branches": [{}]},
            "invalid value: {<nil> {<nil> <nil> <nil> <nil>} <nil> <nil>}: spec.branches.subscriber[0]",
        ),
        (
            "Parallel",
            {"branches": [{"subscriber": {"uri": "http://ok"}, "filter": {}}]},
            "invalid value: {{} {<nil> http://ok <nil> <nil>} <nil> <nil>}: spec.branches.filter[0]",
        ),
        (
            "Parallel",
            {"branches": [{"subscriber": {"uri": "http://ok"}, "delivery": {"retry": -1}}]},
            "invalid value: -1: spec.branches[0].delivery.retry",
        ),
    ],
)
def test_a_flow_that_cannot_work_is_refused_in_knatives_words(
    refusal: Callable[..., str], kind: str, spec: Obj, message: str
) -> None:
    assert refusal(kind, flow(kind, **spec)) == DENIED + message


def test_a_sequence_chains_its_steps_by_the_channel_in_front_of_each() -> None:
    steps = [{"uri": "http://one", "delivery": {"deadLetterSink": {"ref": SERVICE}}}, {"ref": SERVICE}]
    sequence = Sequence.read(
        flow("Sequence", steps=steps, reply={"uri": "http://end"}, channelTemplate={**IMC, "spec": {"a": 1}})
    )
    first, second = sequence.channels()
    owner = {"apiVersion": "flows.knative.dev/v1", "kind": "Sequence", "name": "f", "uid": "u"}
    assert first == {
        **IMC,
        "metadata": {
            "name": "f-kn-sequence-0",
            "namespace": "ns",
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"a": 1},
    }
    assert second["metadata"]["name"] == "f-kn-sequence-1"
    into, out = sequence.subscriptions()
    assert into["metadata"] == first["metadata"]
    assert into["spec"] == {
        "channel": {**IMC, "name": "f-kn-sequence-0"},
        "subscriber": {"uri": "http://one"},
        "reply": {"ref": {**IMC, "name": "f-kn-sequence-1", "namespace": "ns"}},
        "delivery": {"deadLetterSink": {"ref": {**SERVICE, "namespace": "ns"}}},
    }
    assert out["spec"] == {
        "channel": {**IMC, "name": "f-kn-sequence-1"},
        "subscriber": {"ref": {**SERVICE, "namespace": "ns"}},
        "reply": {"uri": "http://end"},
    }


def test_a_branch_without_a_filter_gets_every_event_and_falls_back_to_the_common_reply() -> None:
    branches = [
        {"filter": {"uri": "http://if"}, "subscriber": {"uri": "http://one"}, "reply": {"uri": "http://own"}},
        {"subscriber": {"uri": "http://two"}, "delivery": {"retry": 2}},
    ]
    parallel = Parallel.read(flow("Parallel", branches=branches, reply={"uri": "http://common"}, channelTemplate=IMC))
    names = [channel["metadata"]["name"] for channel in parallel.channels()]
    assert names == ["f-kn-parallel", "f-kn-parallel-0", "f-kn-parallel-1"]
    guarded, unguarded = parallel.filter_subscriptions()
    assert [one["metadata"]["name"] for one in (guarded, unguarded)] == [
        "f-kn-parallel-filter-0",
        "f-kn-parallel-filter-1",
    ]
    assert guarded["spec"] == {
        "channel": {**IMC, "name": "f-kn-parallel"},
        "subscriber": {"uri": "http://if"},
        "reply": {"ref": {**IMC, "name": "f-kn-parallel-0", "namespace": "ns"}},
    }
    assert unguarded["spec"] == {
        "channel": {**IMC, "name": "f-kn-parallel"},
        "subscriber": {"ref": {**IMC, "name": "f-kn-parallel-1", "namespace": "ns"}},
    }
    own, common = parallel.subscriptions()
    assert own["spec"]["reply"] == {"uri": "http://own"}
    assert common["spec"] == {
        "channel": {**IMC, "name": "f-kn-parallel-1"},
        "subscriber": {"uri": "http://two"},
        "reply": {"uri": "http://common"},
        "delivery": {"retry": 2},
    }


def part(kind: str, name: str, ready: str | None = "True", **status: Any) -> Obj:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns"},
        "status": {"conditions": conditions, **status},
    }


ADDRESS: Obj = {"address": {"name": "http", "url": "http://c"}}


def told(status: Obj) -> dict[str, tuple[str, str | None]]:
    return {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]}


def test_a_sequence_is_ready_with_all_its_parts_and_has_the_address_of_its_first_channel() -> None:
    channels, subscriptions = [part("InMemoryChannel", "c", **ADDRESS)], [part("Subscription", "s")]
    status = sequence_status(flow("Sequence"), SequenceObservation(channels, subscriptions), "now")
    assert told(status)["Ready"] == ("True", None)
    assert status["address"] == {"url": "http://c"}
    assert status["observedGeneration"] == 3
    [channel], [subscription] = status["channelStatuses"], status["subscriptionStatuses"]
    assert channel == {
        "channel": {**IMC, "name": "c", "namespace": "ns"},
        "ready": {"type": "Ready", "status": "True"},
    }
    assert subscription["subscription"]["kind"] == "Subscription"


def test_a_sequence_waits_for_parts_that_have_said_nothing_yet() -> None:
    seen = SequenceObservation([part("InMemoryChannel", "c", None)], [part("Subscription", "s", None)])
    status = sequence_status(flow("Sequence"), seen, "now")
    assert told(status) == {
        "Addressable": ("Unknown", "emptyAddress"),
        "ChannelsReady": ("Unknown", "ChannelsNotReady"),
        "EventPoliciesReady": ("True", "OIDCDisabled"),
        "Ready": ("Unknown", "ChannelsNotReady"),
        "SubscriptionsReady": ("Unknown", "SubscriptionsNotReady"),
    }
    assert (status["address"], status["channelStatuses"][0]["ready"]["reason"]) == ({}, "NoReady")
    assert status["subscriptionStatuses"][0]["ready"]["message"] == "Subscription does not have Ready condition"


def test_why_the_parts_of_a_flow_cannot_be_had_is_told() -> None:
    sequence = sequence_status(flow("Sequence"), SequenceObservation([], [], channel_failure="no"), "now")
    assert (find(sequence["conditions"], "Ready") or {})["message"] == "no"
    seen = ParallelObservation([part("InMemoryChannel", "c", **ADDRESS)], [], [], subscription_failure="never")
    parallel = parallel_status(flow("Parallel"), seen, "now")
    assert (find(parallel["conditions"], "SubscriptionsReady") or {})["message"] == "never"
    refused = parallel_status(flow("Parallel"), ParallelObservation([], [], [], channel_failure="no"), "now")
    assert told(refused)["ChannelsReady"] == ("False", "ChannelsNotReady")


def test_a_parallel_shows_the_parts_of_each_branch() -> None:
    channels = [part("InMemoryChannel", "c", **ADDRESS), part("InMemoryChannel", "c0", None)]
    seen = ParallelObservation(channels, [part("Subscription", "f0")], [part("Subscription", "s0", "False")])
    status = parallel_status(flow("Parallel"), seen, "now")
    assert told(status)["ChannelsReady"] == ("False", "ChannelsNotReady")
    assert told(status)["SubscriptionsReady"] == ("False", "SubscriptionsNotReady")
    assert status["address"] == ADDRESS["address"]
    assert status["ingressChannelStatus"]["ready"] == {"type": "Ready", "status": "True"}
    [branch] = status["branchStatuses"]
    assert branch["filterChannelStatus"]["ready"]["reason"] == "NotAddressable"
    assert branch["filterSubscriptionStatus"]["subscription"]["name"] == "f0"
    assert branch["subscriberSubscriptionStatus"]["ready"]["status"] == "False"
