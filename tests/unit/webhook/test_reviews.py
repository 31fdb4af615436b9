"""Reviews as the API server sends them: what is filled in, what is refused, what is left alone."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import jsonpatch
import pytest
from starlette.testclient import TestClient

from penstock.kube.errors import Unavailable
from penstock.resources.registry import bootstrap_configmaps
from penstock.settings import Settings
from penstock.webhook import service as paths
from penstock.webhook.admission import AdmissionHandler
from penstock.webhook.service import may_subscribe

Obj = dict[str, Any]
BROKER: Obj = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "b", "namespace": "n"}}
CLASS = "eventing.knative.dev/broker.class"


class Cluster:
    """Answers what users may do, as the cluster of the webhook does; in place of its `AsyncClient`."""

    def __init__(self) -> None:
        self.asked: list[Obj] = []
        self.allowed = False
        self.failure: Exception | None = None

    async def is_allowed(self, spec: Obj) -> bool:
        self.asked.append(spec)
        if self.failure is not None:
            raise self.failure
        return self.allowed


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def client(cluster: Cluster) -> TestClient:
    settings = Settings(broker_classes=["Penstock"])
    api: Any = cluster
    handler = AdmissionHandler(settings, lambda user, origin: asyncio.run(may_subscribe(api, user, origin)))
    features = {"metadata": {"name": "config-features"}, "data": {"cross-namespace-event-links": "enabled"}}
    handler.configure([*bootstrap_configmaps(settings), features])
    return TestClient(paths.application(handler))


def review(obj: Obj | None, *, operation: str = "CREATE", old: Obj | None = None, **more: Any) -> Obj:
    api_version, kind = (obj or old or BROKER)["apiVersion"], (obj or old or BROKER)["kind"]
    group, _, version = api_version.rpartition("/")
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": kind},
        "namespace": "n",
        "name": "b",
        "operation": operation,
        "userInfo": {"username": "jane"},
        "object": obj,
        "oldObject": old,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answered(client: TestClient, path: str, asked: Obj) -> Obj:
    answer = client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["apiVersion"], document["kind"]) == (asked["apiVersion"], asked["kind"])
    assert document["response"]["uid"] == asked["request"]["uid"]
    response: Obj = document["response"]
    return response


def patched(obj: Obj, response: Obj) -> Obj:
    assert response["patchType"] == "JSONPatch"
    result: Obj = jsonpatch.apply_patch(obj, json.loads(base64.b64decode(response["patch"])))
    return result


def with_class(name: str) -> Obj:
    return {**BROKER, "metadata": {**BROKER["metadata"], "annotations": {CLASS: name}}}


def test_a_plain_broker_gets_class_configuration_and_delivery(client: TestClient) -> None:
    filled = patched(BROKER, answered(client, paths.DEFAULTING, review(BROKER)))
    assert filled["metadata"]["annotations"][CLASS] == "Penstock"
    assert filled["metadata"]["annotations"]["eventing.knative.dev/creator"] == "jane"
    assert filled["spec"]["config"]["name"] == "config-br-default-channel"
    assert filled["spec"]["delivery"]["retry"] == 10


def test_an_object_that_lacks_nothing_gets_no_patch(client: TestClient) -> None:
    filled = patched(BROKER, answered(client, paths.DEFAULTING, review(BROKER)))
    again = answered(client, paths.DEFAULTING, review(filled, operation="UPDATE", old=filled))
    assert again == {"uid": "u-1", "allowed": True}


def test_a_trigger_with_broken_cesql_is_refused_in_the_words_of_the_kind(client: TestClient) -> None:
    spec = {"broker": "b", "subscriber": {"uri": "http://s"}, "filters": [{"cesql": "type ="}]}
    trigger = {**BROKER, "kind": "Trigger", "spec": spec}
    refused = answered(client, paths.VALIDATION, review(trigger))
    assert refused["allowed"] is False
    assert refused["status"]["code"] == 400
    assert refused["status"]["message"].startswith("validation failed: ")
    assert "spec.filters[0].cesql" in refused["status"]["message"]


def test_what_never_changes_is_compared_with_the_object_before(client: TestClient) -> None:
    filled = patched(BROKER, answered(client, paths.DEFAULTING, review(BROKER)))
    other = json.loads(json.dumps(filled))
    other["spec"]["config"]["name"] = "other"
    refused = answered(client, paths.VALIDATION, review(other, operation="UPDATE", old=filled))
    assert "Immutable fields changed" in refused["status"]["message"]


@pytest.mark.parametrize("path", [paths.DEFAULTING, paths.VALIDATION])
def test_brokers_of_other_classes_are_left_alone(client: TestClient, path: str) -> None:
    foreign = {**with_class("RabbitMQ"), "spec": {"delivery": {"backoffDelay": "not a duration"}}}
    assert answered(client, path, review(foreign)) == {"uid": "u-1", "allowed": True}
    assert answered(client, path, review(foreign, operation="UPDATE", old=foreign)) == {"uid": "u-1", "allowed": True}


def test_a_broker_cannot_leave_for_another_class(client: TestClient) -> None:
    ours, foreign = with_class("Penstock"), with_class("RabbitMQ")
    refused = answered(client, paths.VALIDATION, review(foreign, operation="UPDATE", old=ours))
    assert "Immutable fields changed" in refused["status"]["message"]


def test_the_template_of_a_channel_is_kept(client: TestClient) -> None:
    template = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel", "spec": {"numPartitions": 3}}
    channel = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Channel",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"channelTemplate": template},
    }
    filled = patched(channel, answered(client, paths.DEFAULTING, review(channel)))
    assert filled["spec"]["channelTemplate"] == template


@pytest.mark.parametrize(
    "asked",
    [
        review({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
        review(None, operation="DELETE", old=BROKER),
        review(BROKER, operation="CONNECT"),
        review(BROKER, subResource="status"),
    ],
    ids=["unknown kind", "deletion", "unknown operation", "status"],
)
@pytest.mark.parametrize("path", [paths.DEFAULTING, paths.VALIDATION, paths.CONFIG_VALIDATION])
def test_what_is_not_ours_to_judge_passes(client: TestClient, path: str, asked: Obj) -> None:
    assert answered(client, path, asked) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("odd", ["text", 7, ["list"], {"delivery": "text"}, {"delivery": {"deadLetterSink": 4}}])
def test_objects_without_the_shape_of_their_kind_are_left_to_the_schema(client: TestClient, odd: Any) -> None:
    assert answered(client, paths.DEFAULTING, review({**BROKER, "spec": odd}))["allowed"] is True


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "is not an object"),
        (b"{}", "AdmissionReview of admission.k8s.io/v1 is expected"),
        (json.dumps({**review(BROKER), "apiVersion": "admission.k8s.io/v1beta1"}).encode(), "is expected"),
        (json.dumps({**review(BROKER), "request": None}).encode(), "request is not an object"),
        (json.dumps(review(BROKER, uid="")).encode(), "request.uid is missing"),
        (json.dumps(review(BROKER, kind=None)).encode(), "request.kind is not an object"),
        (json.dumps(review(BROKER, kind={})).encode(), "request.kind.kind is missing"),
        (json.dumps(review(BROKER, object="text")).encode(), "request.object is not an object"),
    ],
)
@pytest.mark.parametrize("path", [paths.DEFAULTING, paths.VALIDATION, paths.CONFIG_VALIDATION])
def test_what_is_no_review_is_answered_400(client: TestClient, path: str, body: bytes, told: str) -> None:
    answer = client.post(path, content=body)
    assert answer.status_code == 400
    assert told in answer.text


def test_too_much_is_answered_413(client: TestClient) -> None:
    assert client.post(paths.DEFAULTING, content=b"x" * (paths.MAX_BODY_BYTES + 1)).status_code == 413


def test_only_reviews_are_taken(client: TestClient) -> None:
    assert client.get(paths.DEFAULTING).status_code == 405
    assert client.post("/other", json=review(BROKER)).status_code == 404


def test_features_are_refused_or_warned_of(client: TestClient) -> None:
    def asked(data: dict[str, str]) -> Obj:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-features"}, "data": data}
        asked = review(obj, operation="UPDATE", name="config-features", namespace="knative-eventing")
        return answered(client, paths.CONFIG_VALIDATION, asked)

    assert asked({"authentication-oidc": "enabled"})["allowed"]
    plain = asked({"transport-encryption": "strict"})
    assert "tls_cert_file, tls_key_file and tls_ca_file are not set" in plain["status"]["message"]
    assert asked({"telepathy": "enabled"})["warnings"] == [
        'feature "telepathy" is not known to penstock and has no effect'
    ]


def conversion(wanted: str, *objects: Obj) -> Obj:
    request = {"uid": "u-1", "desiredAPIVersion": wanted, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def test_event_types_are_converted_there_and_back(client: TestClient) -> None:
    older = {
        "apiVersion": "eventing.knative.dev/v1beta2",
        "kind": "EventType",
        "metadata": {"name": "t", "uid": "x"},
        "spec": {"type": "order", "source": "/s"},
    }
    forth = answered(client, paths.CONVERSION, conversion("eventing.knative.dev/v1beta3", older))
    assert forth["result"] == {"status": "Success"}
    (newer,) = forth["convertedObjects"]
    assert newer["metadata"] == older["metadata"]
    back = answered(client, paths.CONVERSION, conversion("eventing.knative.dev/v1beta2", newer))
    assert back["convertedObjects"] == [older]


def test_a_conversion_that_nobody_knows_fails_with_a_sentence(client: TestClient) -> None:
    failed = answered(client, paths.CONVERSION, conversion("eventing.knative.dev/v2", BROKER))
    assert failed["result"]["status"] == "Failure"
    assert "cannot be converted to eventing.knative.dev/v2" in failed["result"]["message"]
    assert client.post(paths.CONVERSION, json={**conversion("v1"), "kind": "Other"}).status_code == 400


JANE = {"username": "jane", "groups": ["buyers"], "uid": "u", "extra": {"scopes": ["read"]}}
LINKED: Obj = {
    "apiVersion": "eventing.knative.dev/v1",
    "kind": "Trigger",
    "metadata": {"name": "t", "namespace": "n"},
    "spec": {
        "brokerRef": {
            "apiVersion": "eventing.knative.dev/v1",
            "kind": "Broker",
            "name": "payments",
            "namespace": "bank",
        },
        "subscriber": {"uri": "http://s"},
    },
}


def test_events_of_another_namespace_are_for_users_whom_the_cluster_lets_subscribe(
    client: TestClient, cluster: Cluster
) -> None:
    refused = answered(client, paths.VALIDATION, review(LINKED, userInfo=JANE))
    assert refused["status"]["message"] == (
        "validation failed: user jane is not authorized to get target resource in namespace: bank: spec.BrokerNamespace"
    )
    cluster.allowed = True
    assert answered(client, paths.VALIDATION, review(LINKED, userInfo=JANE))["allowed"] is True
    who = {"user": "jane", "groups": ["buyers"], "uid": "u", "extra": {"scopes": ["read"]}}
    what = {
        "verb": "knsubscribe",
        "group": "eventing.knative.dev",
        "resource": "brokers",
        "namespace": "bank",
        "name": "payments",
    }
    assert cluster.asked == [{**who, "resourceAttributes": what}] * 2


def test_where_the_cluster_cannot_be_asked_what_a_user_may_do_the_object_is_refused(
    client: TestClient, cluster: Cluster
) -> None:
    cluster.failure = Unavailable("connection refused")
    refused = answered(client, paths.VALIDATION, review(LINKED, userInfo=JANE))
    assert refused["status"]["message"] == (
        "validation failed: failed to make authorization request to see if user can subscribe to resources in "
        "namespace: connection refused: spec.BrokerNamespace"
    )
