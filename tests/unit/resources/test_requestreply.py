"""Defaults, validation, keys, correlation and status of RequestReplies."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from penstock.resources.conditions import find
from penstock.resources.requestreply import (
    RequestReply,
    RequestReplyObservation,
    correlation_of,
    request_of,
    status_of,
    with_key,
    without_keys,
)

Obj = dict[str, Any]
DENIED = 'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
BROKER = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}
KEY, OTHER = b"k" * 32, b"o" * 32


def request_reply(**spec: Any) -> Obj:
    return {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "RequestReply",
        "metadata": {"name": "r", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"brokerRef": BROKER, **spec},
    }


def test_what_was_left_out_is_filled_in(admit: Callable[..., Obj]) -> None:
    filled = admit("RequestReply", request_reply())
    assert filled["spec"] == {
        "brokerRef": BROKER,
        "timeout": "PT30S",
        "correlationAttribute": "correlationid",
        "replyAttribute": "replyid",
    }
    assert filled["metadata"]["labels"] == {"eventing.knative.dev/broker": "b"}
    later = admit("RequestReply", request_reply(), features={"requestreply-default-timeout": "PT5S"})
    assert later["spec"]["timeout"] == "PT5S"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"brokerRef": {**BROKER, "kind": "Channel"}},
            "invalid value: Channel: spec.brokerRef.kind\nbrokerRef kind must be Broker",
        ),
        ({"brokerRef": {**BROKER, "namespace": "x"}}, "must not set the field(s): spec.brokerRef.namespace"),
        ({"timeout": "PT0S"}, "invalid value: PT0S: spec.timeout\ntimeout must be a positive duration"),
        (
            {"replyAttribute": "type"},
            "invalid value: type: spec.replyattribute\nreplyattribute must be non-empty and cannot be a core "
            "cloudevent attribute (id, type, specversion, source)",
        ),
        (
            {"correlationAttribute": "no such"},
            "invalid value: no such: spec.correlationattribute\nexpected lower-case letters and digits",
        ),
    ],
)
def test_what_cannot_work_is_refused(refusal: Callable[..., str], spec: Obj, message: str) -> None:
    assert refusal("RequestReply", request_reply(**spec)) == DENIED + message


@pytest.mark.parametrize("event_id", ["1", "a:b:c", "ä"])
def test_a_reply_is_known_by_its_correlation_and_nothing_else(event_id: str) -> None:
    correlation = correlation_of(event_id, KEY)
    assert request_of(correlation, [OTHER, KEY]) == event_id
    assert request_of(correlation, [OTHER]) is None
    _, sealed, replica = correlation.rsplit(":", 2)
    for forged in (f"other:{sealed}:{replica}", f"{event_id}::0", f"{event_id}:%%:0", event_id, ""):
        assert request_of(forged, [KEY]) is None


def test_the_keys_of_all_are_in_one_secret() -> None:
    wanted = RequestReply.read(request_reply())
    secret = with_key(None, "knative-eventing", "ns.other.key-0", OTHER)
    assert wanted.keys(secret) == []
    secret = with_key(with_key(secret, "", "ns.r.key-0", KEY), "", "ns.r.key-1", OTHER)
    assert wanted.keys(secret) == [OTHER, KEY], "the newest first"
    secret["data"]["ns.r.key-2"] = base64.b64encode(b"short").decode()
    assert wanted.keys(secret) == [OTHER, KEY]
    assert list(without_keys(secret, wanted.key_prefix)["data"]) == ["ns.other.key-0"]


READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "address": {"url": "http://broker"}}}


def test_it_is_ready_with_its_broker_and_its_trigger() -> None:
    seen = RequestReplyObservation("http://rr/ns/r", READY, "", READY)
    status = status_of(request_reply(), seen, "now")
    assert (find(status["conditions"], "Ready") or {})["status"] == "True"
    assert status["address"] == {"name": "http", "url": "http://rr/ns/r"}
    assert status["annotations"] == {"knative.dev/brokerAddress": "http://broker"}
    assert (status["desiredReplicas"], status["readyReplicas"]) == (1, 1)


def test_it_says_what_is_not_there() -> None:
    status = status_of(request_reply(), RequestReplyObservation("u", None, "not found", None), "now")
    told = {one["type"]: (one["status"], one.get("reason"), one.get("message")) for one in status["conditions"]}
    assert told["BrokerReady"] == ("Unknown", "NotFound", "could not get broker: not found")
    assert told["TriggersReady"] == ("Unknown", "TriggersNotReady", "not all triggers are ready yet")
    failed = status_of(request_reply(), RequestReplyObservation("u", {"status": {}}, "", None, "no"), "now")
    told = {one["type"]: (one["status"], one.get("reason"), one.get("message")) for one in failed["conditions"]}
    assert told["BrokerReady"][:2] == ("False", "NotReady")
    assert told["TriggersReady"][1] == "TriggerReconcileError"
