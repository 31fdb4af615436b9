"""What clients see over HTTP: verbs, refusals, bad input. Every refusal is a Status that says what to do."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.apiserver.protobuf.messages import RUNTIME, kind_message, message
from tests.integration.apiserver.api_process import Server
from tests.waiting import eventually

EVENTING = "/apis/eventing.knative.dev/v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
BODIES = Path(__file__).parents[2] / "unit" / "apiserver" / "bodies"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def refused(server: Server, code: int, reason: str, method: str, path: str, body: Any = None, **more: Any) -> str:
    answer = server.call(method, path, body, **more)
    status = answer.json()
    assert (answer.status, status["kind"], status["code"], status["reason"]) == (code, "Status", code, reason), status
    return str(status["message"])


def test_requests_without_a_valid_token_get_401(server: Server) -> None:
    refused(server, 401, "Unauthorized", "GET", "/api/v1/pods", token="")
    refused(server, 401, "Unauthorized", "GET", "/api/v1/pods", token="wrong")
    assert server.call("GET", "/livez", token="").status == 200
    assert server.call("GET", "/readyz", token="").body == b"ok"


def test_secrets_in_the_data_folder_are_for_the_owner_only(server: Server) -> None:
    for name in ("kubeconfig", "kubeconfig-control", "pki/tokens.json", "pki/ca.key", "pki/server.key"):
        assert stat.S_IMODE((server.data_dir / name).stat().st_mode) == 0o600


def test_a_stale_update_is_a_conflict(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = server.call("POST", path, configmap("c", a="1")).json()
    newer = server.call("PUT", f"{path}/c", {**made, "data": {"a": "2"}})
    assert newer.status == 200
    message = refused(server, 409, "Conflict", "PUT", f"{path}/c", {**made, "data": {"a": "3"}})
    assert "the object has been modified" in message
    assert server.call("GET", f"{path}/c").json()["data"] == {"a": "2"}


def test_an_update_that_changes_nothing_is_no_change(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = server.call("POST", path, configmap("c", a="1")).json()
    again = server.call("PUT", f"{path}/c", made).json()
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_generation_moves_with_spec_only_and_status_has_its_own_door(server: Server, namespace: str) -> None:
    path = f"{EVENTING}/namespaces/{namespace}/brokers"
    made = server.call("POST", path, {"metadata": {"name": "b"}, "status": {"address": {"url": "http://lie"}}}).json()
    assert made["metadata"]["generation"] == 1
    assert "status" not in made
    merge = "application/merge-patch+json"
    labelled = server.call("PATCH", f"{path}/b", {"metadata": {"labels": {"a": "b"}}}, media=merge).json()
    assert labelled["metadata"]["generation"] == 1
    ignored = server.call("PATCH", f"{path}/b", {"status": {"address": {"url": "http://x"}}}, media=merge).json()
    assert "status" not in ignored
    told = server.call(
        "PATCH",
        f"{path}/b/status",
        {"status": {"address": {"url": "http://x"}}, "spec": {"delivery": {"retry": 1}}},
        media=merge,
    ).json()
    assert told["status"]["address"]["url"] == "http://x"
    assert told["metadata"]["generation"] == 1
    assert told["spec"] == made["spec"]
    changed = server.call("PATCH", f"{path}/b", {"spec": {"delivery": {"retry": 9}}}, media=merge).json()
    assert changed["metadata"]["generation"] == 2
    assert changed["status"]["address"]["url"] == "http://x"


def test_refusals_of_the_kind_are_told_as_a_webhook_tells_them(server: Server, namespace: str) -> None:
    message = refused(
        server,
        400,
        "BadRequest",
        "POST",
        f"{EVENTING}/namespaces/{namespace}/triggers",
        {"metadata": {"name": "t"}, "spec": {"subscriber": {"uri": "http://x"}}},
    )
    assert message.startswith(
        'admission webhook "validation.webhook.eventing.knative.dev" denied the request: validation failed: '
    )
    assert "missing field(s): spec.broker" in message


BAD_BODIES = [
    (b"{not json", "application/json", 400, "BadRequest"),
    (b"[1]", "application/json", 400, "BadRequest"),
    (b"a: [", "application/yaml", 400, "BadRequest"),
    (b"a: &x 1\nb: *x\n", "application/yaml", 400, "BadRequest"),
    (b"\xff\xfe", "application/json", 400, "BadRequest"),
    (b"k8s\x00\x0a\xff\xff", "application/vnd.kubernetes.protobuf", 400, "BadRequest"),
    (b"<a/>", "application/xml", 415, "UnsupportedMediaType"),
    (b'{"metadata":[]}', "application/json", 400, "BadRequest"),
    (b'{"metadata":{"name":"' + b"x" * 300 + b'"}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":"Upper_Case"}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":5}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":"a","labels":{"x":5}}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":"a","labels":{"x":"' + b"y" * 64 + b'"}}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":"a"},"data":{"x":1}}', "application/json", 422, "Invalid"),
    (b'{"metadata":{"name":"a"},"data":"x"}', "application/json", 422, "Invalid"),
    (b'{"kind":"Secret","metadata":{"name":"a"}}', "application/json", 400, "BadRequest"),
    (b'{"metadata":{"name":"a","namespace":"elsewhere"}}', "application/json", 400, "BadRequest"),
    (b'{"metadata":' * 100_000, "application/json", 400, "BadRequest"),
    (b'{"metadata":{"name":"a","ownerReferences":[{"uid":1}]}}', "application/json", 422, "Invalid"),
]


@pytest.mark.parametrize(("body", "media", "code", "reason"), BAD_BODIES)
def test_bad_bodies_get_a_clear_status(server: Server, body: bytes, media: str, code: int, reason: str) -> None:
    assert refused(server, code, reason, "POST", "/api/v1/namespaces/default/configmaps", body, media=media)


def test_deeply_nested_objects_are_refused(server: Server, namespace: str) -> None:
    definition = crd("deeps", "Deep", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    assert server.call("POST", CRDS, definition).status == 201
    nested = b'{"a":' * 900 + b"1" + b"}" * 900
    body = b'{"metadata":{"name":"d"},"spec":' + nested + b"}"
    path = f"/apis/tests.example/v1/namespaces/{namespace}/deeps"
    answer = server.call("POST", path, body)
    assert answer.status in (201, 400), answer.body
    assert server.call("GET", "/livez").status == 200


def test_an_object_of_ten_mebibytes_is_too_large(server: Server, namespace: str) -> None:
    body = configmap("big", a="x" * (10 * 1024 * 1024))
    message = refused(server, 413, "RequestEntityTooLarge", "POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert "limit is 3145728" in message


BAD_PATCHES = [
    ({"spec": 1}, "application/json", 415, "UnsupportedMediaType"),
    ([{"op": "remove", "path": "/spec/nothing"}], "application/json-patch+json", 422, "Invalid"),
    ([{"op": "test", "path": "/metadata/name", "value": "x"}], "application/json-patch+json", 422, "Invalid"),
    ({"op": "remove"}, "application/json-patch+json", 400, "BadRequest"),
    ([{"op": "explode", "path": "/a"}], "application/json-patch+json", 422, "Invalid"),
    ([{"op": "replace", "path": "", "value": 5}], "application/json-patch+json", 400, "BadRequest"),
    ("text", "application/merge-patch+json", 400, "BadRequest"),
    ({"metadata": None}, "application/merge-patch+json", 200, None),
    ({"metadata": {"name": "other"}}, "application/merge-patch+json", 400, "BadRequest"),
    ({"spec": {"delivery": {"retry": "many"}}}, "application/merge-patch+json", 422, "Invalid"),
    ({"spec": {"delivery": 5}}, "application/merge-patch+json", 422, "Invalid"),
    ({"spec": {}}, "application/strategic-merge-patch+json", 415, "UnsupportedMediaType"),
]


def test_patches_that_do_not_apply(server: Server, namespace: str) -> None:
    path = f"{EVENTING}/namespaces/{namespace}/brokers"
    assert server.call("POST", path, {"metadata": {"name": "b"}}).status == 201
    for patch, media, code, reason in BAD_PATCHES:
        answer = server.call("PATCH", f"{path}/b", patch, media=media)
        assert answer.status == code, (patch, answer.body)
        assert answer.json().get("reason") == reason
    refused(server, 404, "NotFound", "PATCH", f"{path}/none", {}, media="application/merge-patch+json")
    apply = "application/apply-patch+yaml"
    wanted = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "metadata": {"name": "b"}}
    refused(server, 422, "Invalid", "PATCH", f"{path}/b", wanted, media=apply)


def test_bad_queries(server: Server) -> None:
    pods = "/api/v1/namespaces/default/pods"
    for query in (
        "labelSelector=a%20in%20b",
        "labelSelector=%2C",
        "fieldSelector=spec.color%3Dred",
        "limit=-1",
        "limit=many",
        "continue=rubbish",
        "resourceVersion=yesterday",
        "watch=true&resourceVersion=yesterday",
        "watch=true&timeoutSeconds=soon",
    ):
        refused(server, 400, "BadRequest", "GET", f"{pods}?{query}")
    for path in ("/nothing", "/apis/no.such.group/v1/things", "/api/v1/things", "/api/v2", "/apis/no.such.group"):
        refused(server, 404, "NotFound", "GET", path)
    refused(server, 405, "MethodNotAllowed", "POST", f"{pods}/x", {})
    refused(server, 406, "NotAcceptable", "GET", pods, Accept="application/xml")
    refused(server, 400, "BadRequest", "POST", f"{pods}?dryRun=Some", {"metadata": {"name": "x"}})
    refused(server, 404, "NotFound", "POST", "/api/v1/namespaces/none/pods", {"metadata": {"name": "x"}})
    refused(server, 404, "NotFound", "DELETE", f"{pods}/none")


def test_a_watch_from_the_future_is_told_to_wait(server: Server) -> None:
    message = refused(server, 504, "Timeout", "GET", "/api/v1/pods?watch=true&resourceVersion=999999999")
    assert "Too large resource version" in message


def test_lists_come_in_pages_and_by_selector(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(7):
        body = configmap(f"c{number}")
        body["metadata"]["labels"] = {"parity": "even" if number % 2 == 0 else "odd", "n": str(number)}
        assert server.call("POST", path, body).status == 201

    def names(answer: Any) -> list[str]:
        return [item["metadata"]["name"] for item in answer["items"]]

    first = server.call("GET", f"{path}?limit=3").json()
    assert names(first) == ["c0", "c1", "c2"]
    assert first["metadata"]["remainingItemCount"] == 4
    second = server.call("GET", f"{path}?limit=3&continue={first['metadata']['continue']}").json()
    third = server.call("GET", f"{path}?limit=3&continue={second['metadata']['continue']}").json()
    assert names(second) + names(third) == ["c3", "c4", "c5", "c6"]
    assert "continue" not in third["metadata"]
    even = server.call("GET", f"{path}?labelSelector=parity%20in%20(even),n!=0&limit=2").json()
    assert names(even) == ["c2", "c4"]
    assert names(server.call("GET", f"{path}?fieldSelector=metadata.name%3Dc5").json()) == ["c5"]
    partial = server.call(
        "GET", f"{path}?limit=1", Accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    ).json()
    assert partial["kind"] == "PartialObjectMetadataList"
    assert "data" not in partial["items"][0]
    assert server.call("GET", f"{path}/c1", Accept="application/yaml").body.startswith(b"apiVersion: v1")
    deleted = server.call("DELETE", f"{path}?labelSelector=parity%3Dodd").json()
    assert names(deleted) == ["c1", "c3", "c5"]
    assert names(server.call("GET", path).json()) == ["c0", "c2", "c4", "c6"]


def crd(plural: str, kind: str, spec: dict[str, Any], **names: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.tests.example"},
        "spec": {
            "group": "tests.example",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": spec,
                                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            },
                        }
                    },
                }
            ],
        },
    }


def test_a_users_own_kind_is_served_with_its_schema(server: Server, namespace: str) -> None:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        },
    }
    path = f"/apis/tests.example/v1/namespaces/{namespace}/widgets"
    refused(server, 404, "NotFound", "GET", path)
    definition = crd("widgets", "Widget", spec, shortNames=["wd"])
    assert server.call("POST", CRDS, definition).status == 201
    made = server.call("POST", path, {"metadata": {"name": "w"}, "spec": {"size": 2, "extra": 1}})
    assert made.json()["spec"] == {"size": 2, "colour": "red"}
    assert 'unknown field \\"spec.extra\\"' in made.headers["warning"]
    for bad in ({"size": 0}, {}, {"size": "2"}, {"size": 1, "colour": "green"}):
        refused(server, 422, "Invalid", "POST", path, {"metadata": {"name": "x"}, "spec": bad})
    status = {"address": {"url": "http://widget"}}
    told = server.call("PATCH", f"{path}/w/status", {"status": status}, media="application/merge-patch+json").json()
    assert told["status"] == status
    assert "w" in server.kubectl("-n", namespace, "get", "wd")
    assert server.call("DELETE", f"{CRDS}/widgets.tests.example").status == 200
    refused(server, 404, "NotFound", "GET", path)


def test_a_definition_that_cannot_be_served_is_refused(server: Server) -> None:
    broken = crd("oddities", "Oddity", {"type": "object"})
    broken["metadata"]["name"] = "else.tests.example"
    assert "spec.names.plural" in refused(server, 422, "Invalid", "POST", CRDS, broken)
    broken = crd("oddities", "Oddity", {"type": "object"})
    broken["spec"]["versions"][0]["storage"] = False
    refused(server, 422, "Invalid", "POST", CRDS, broken)


def test_owners_take_their_dependents_with_them(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def owned(name: str, owner: dict[str, Any], *, block: bool = False, finalizers: tuple[str, ...] = ()) -> None:
        body = configmap(name)
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
        reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}
        body["metadata"] |= {"ownerReferences": [reference], "finalizers": list(finalizers)}
        assert server.call("POST", path, body).status == 201

    def status(name: str) -> int:
        return server.call("GET", f"{path}/{name}").status

    one = server.call("POST", path, configmap("one")).json()
    owned("child", one)
    owned("grandchild", server.call("GET", f"{path}/child").json())
    server.call("DELETE", f"{path}/one")
    assert [status(name) for name in ("one", "child", "grandchild")] == [404, 404, 404]

    two = server.call("POST", path, configmap("two")).json()
    owned("left", two)
    server.call("DELETE", f"{path}/two", {"propagationPolicy": "Orphan"})
    left = server.call("GET", f"{path}/left").json()
    assert not left["metadata"].get("ownerReferences")

    three = server.call("POST", path, configmap("three")).json()
    owned("held", three, block=True, finalizers=("tests.example/hold",))
    server.call("DELETE", f"{path}/three", {"propagationPolicy": "Foreground"})
    waiting = server.call("GET", f"{path}/three").json()["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert waiting["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    assert server.call("PATCH", f"{path}/held", patch, media="application/merge-patch+json").status == 200
    assert [status(name) for name in ("held", "three")] == [404, 404]


def test_finalizers_hold_a_namespace_until_they_are_gone(server: Server) -> None:
    assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "slow"}}).status == 201
    path = "/api/v1/namespaces/slow/configmaps"
    body = configmap("held")
    body["metadata"]["finalizers"] = ["tests.example/hold"]
    assert server.call("POST", path, body).status == 201
    server.call("DELETE", "/api/v1/namespaces/slow")
    assert server.call("GET", "/api/v1/namespaces/slow").json()["status"]["phase"] == "Terminating"
    assert "being terminated" in refused(server, 403, "Forbidden", "POST", path, configmap("late"))
    server.call("PATCH", f"{path}/held", {"metadata": {"finalizers": []}}, media="application/merge-patch+json")
    assert eventually(lambda: server.call("GET", "/api/v1/namespaces/slow").status == 404)


def test_preconditions_of_a_delete(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    server.call("POST", path, configmap("c"))
    refused(server, 409, "Conflict", "DELETE", f"{path}/c", {"preconditions": {"uid": "another"}})
    assert server.call("DELETE", f"{path}/c?dryRun=All").status == 200
    assert server.call("GET", f"{path}/c").status == 200


def test_the_configuration_that_holds_defaults_is_read_and_followed(server: Server, namespace: str) -> None:
    names = [
        item["metadata"]["name"]
        for item in server.call("GET", "/api/v1/namespaces/knative-eventing/configmaps").json()["items"]
    ]
    assert {"config-br-defaults", "default-ch-webhook", "config-features"} <= set(names)
    path = "/api/v1/namespaces/knative-eventing/configmaps/config-br-defaults"
    before = server.call("GET", path).json()
    changed = json.loads(json.dumps(before))
    key, text = next(iter(changed["data"].items()))
    changed["data"][key] = text.replace("retry: 10", "retry: 42")
    assert changed["data"] != before["data"]
    try:
        assert server.call("PUT", path, changed).status == 200
        brokers = f"{EVENTING}/namespaces/{namespace}/brokers"
        made = server.call("POST", brokers, {"metadata": {"name": "b"}}).json()
        assert made["spec"]["delivery"]["retry"] == 42
    finally:
        server.call("PATCH", path, {"data": before["data"]}, media="application/merge-patch+json")


@pytest.mark.parametrize(
    "path", ["/version", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/api/v1/namespaces"]
)
def test_a_slash_at_the_end_changes_nothing(server: Server, path: str) -> None:
    plain, slashed = server.call("GET", path), server.call("GET", f"{path}/")
    assert plain.status == slashed.status == 200
    assert plain.json().get("kind") == slashed.json().get("kind")


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("deployment", "/apis/apps/v1/namespaces/ns/deployments"),
        ("replicaset", "/apis/apps/v1/namespaces/ns/replicasets"),
        ("cronjob", "/apis/batch/v1/namespaces/ns/cronjobs"),
        ("service", "/api/v1/namespaces/ns/services"),
        ("event", "/api/v1/namespaces/ns/events"),
        ("endpoints", "/api/v1/namespaces/ns/endpoints"),
        ("endpointslice", "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"),
    ],
)
def test_protobuf_is_stored_as_its_json_would_be(server: Server, name: str, collection: str) -> None:
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    stored = []
    for media, ending in ((PROTOBUF, "pb"), ("application/json", "json")):
        body = (BODIES / f"{name}.{ending}").read_bytes()
        answer = server.call(
            "POST", f"{collection}?dryRun=All", body, media=media, Accept=f"{PROTOBUF},application/json"
        )
        assert answer.status == 201, answer.body
        stored.append(content(answer.json()))
    assert stored[0] == stored[1]


def content(obj: dict[str, Any]) -> dict[str, Any]:
    """What a client wrote, without empty objects, which Go's JSON has for what was never set."""
    chosen = ("metadata", "clusterIP", "clusterIPs")
    parts = {key: content(part) if isinstance(part, dict) else part for key, part in obj.items() if key not in chosen}
    return {key: part for key, part in parts.items() if part != {}}


def test_a_lease_is_taken_and_renewed_in_protobuf(server: Server) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    made = server.call("POST", leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "other"}})
    assert made.status == 201
    # The fixture names the version 7: whoever held the lease then has lost it since.
    renewal = (BODIES / "lease.pb").read_bytes()
    assert server.call("PUT", f"{leases}/l", renewal, media=PROTOBUF).status == 409
    envelope: Any = message(f"{RUNTIME}.Unknown")
    envelope.ParseFromString(renewal[4:])
    lease: Any = kind_message("coordination.k8s.io/v1", "Lease")
    lease.ParseFromString(envelope.raw)
    lease.metadata.resourceVersion = made.json()["metadata"]["resourceVersion"]
    envelope.raw = lease.SerializeToString()
    current = renewal[:4] + envelope.SerializeToString()
    answer = server.call("PUT", f"{leases}/l", current, media=PROTOBUF, Accept=f"{PROTOBUF},application/json")
    assert answer.status == 200, answer.body
    assert answer.json()["spec"]["holderIdentity"] == "me"
    assert answer.json()["spec"]["leaseTransitions"] == 0


def test_null_is_no_value_where_the_schema_has_none(server: Server, namespace: str) -> None:
    trigger = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "t"},
        "spec": {"broker": "b", "filter": {"attributes": None}, "subscriber": {"uri": "http://x/", "ref": None}},
    }
    answer = server.call("POST", f"{EVENTING}/namespaces/{namespace}/triggers", trigger)
    assert answer.status == 201, answer.body
    assert answer.json()["spec"]["filter"] == {}
