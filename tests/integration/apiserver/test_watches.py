"""Watches: complete, resumable, bounded; and a client library that relies on all of it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import kubernetes

from tests.integration.apiserver.api_process import Server
from tests.waiting import eventually

OFFICIAL: Any = kubernetes
"""The client library, whose annotations are incomplete."""


def events(server: Server, path: str) -> tuple[http.client.HTTPSConnection, Iterator[dict[str, Any]]]:
    """An open watch and its events; the connection is the caller's to close."""
    connection = server.connection()
    connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
    response = connection.getresponse()
    assert response.status == 200, response.read()

    def read() -> Iterator[dict[str, Any]]:
        while line := response.readline():
            yield json.loads(line)

    return connection, read()


def named(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def test_a_watch_goes_on_where_a_list_ended(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    server.call("POST", path, named("before"))
    version = server.call("GET", path).json()["metadata"]["resourceVersion"]
    server.call("POST", path, named("after"))
    connection, stream = events(server, f"{path}?watch=true&resourceVersion={version}")
    seen = next(stream)
    assert (seen["type"], seen["object"]["metadata"]["name"]) == ("ADDED", "after")
    server.call("PATCH", f"{path}/before", {"data": {"a": "b"}}, media="application/merge-patch+json")
    server.call("DELETE", f"{path}/after")
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in (next(stream), next(stream))] == [
        ("MODIFIED", "before"),
        ("DELETED", "after"),
    ]
    connection.close()


def test_objects_that_enter_and_leave_a_selection_are_added_and_deleted(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    connection, stream = events(server, f"{path}?watch=true&labelSelector=on%3Dyes")
    server.call("POST", path, named("c", on="no"))
    merge = "application/merge-patch+json"
    for value in ("yes", "no"):
        server.call("PATCH", f"{path}/c", {"metadata": {"labels": {"on": value}}}, media=merge)
    assert [next(stream)["type"], next(stream)["type"]] == ["ADDED", "DELETED"]
    connection.close()


def test_initial_events_end_with_a_bookmark_and_time_out_with_one(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    connection, stream = events(server, f"{path}?{query}&timeoutSeconds=1")
    first, second, last = stream
    assert first["type"] == "ADDED"
    assert second["type"] == "BOOKMARK"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert last["type"] == "BOOKMARK"
    connection.close()


def test_a_version_that_is_too_old_gets_410(server: Server, namespace: str) -> None:
    connection, stream = events(server, f"/api/v1/namespaces/{namespace}/configmaps?watch=true&resourceVersion=1")
    event = next(stream)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    connection.close()


def test_many_watches_and_clients_that_never_read_disturb_nobody(server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    version = server.call("GET", path).json()["metadata"]["resourceVersion"]
    opened = []
    for _ in range(100):
        connection = server.connection()
        query = f"{path}?watch=true&resourceVersion={version}"
        connection.request("GET", query, headers={"Authorization": f"Bearer {server.token}"})
        opened.append(connection)
    before = server.memory_mib()
    for number in range(60):
        body = {**named(f"c{number}"), "data": {"a": "x" * 100_000}}
        assert server.call("POST", path, body).status == 201
    reader, stream = events(server, f"{path}?watch=true&resourceVersion={version}")
    seen = [next(stream)["object"]["metadata"]["name"] for _ in range(60)]
    assert seen == [f"c{number}" for number in range(60)]
    # 100 clients times 6 MB would be 600 MB if the server kept a queue for each.
    assert server.memory_mib() - before < 100
    for connection in (*opened, reader):
        connection.close()
    assert eventually(lambda: server.call("GET", path).status == 200)


def test_the_official_client_lists_and_watches(server: Server, namespace: str) -> None:
    api_client = OFFICIAL.config.new_client_from_config(str(server.kubeconfig))
    try:
        core = OFFICIAL.client.CoreV1Api(api_client)
        custom = OFFICIAL.client.CustomObjectsApi(api_client)
        group = ("eventing.knative.dev", "v1", namespace, "brokers")
        custom.create_namespaced_custom_object(
            *group, {"apiVersion": "/".join(group[:2]), "kind": "Broker", **named("a")}
        )
        listed = custom.list_namespaced_custom_object(*group)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        timer = threading.Timer(
            0.2,
            lambda: custom.create_namespaced_custom_object(
                *group, {"apiVersion": "/".join(group[:2]), "kind": "Broker", **named("b")}
            ),
        )
        timer.start()
        watch = OFFICIAL.watch.Watch()
        for event in watch.stream(
            custom.list_namespaced_custom_object,
            *group,
            resource_version=listed["metadata"]["resourceVersion"],
            timeout_seconds=20,
        ):
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
            watch.stop()
        timer.join()
        pod = core.create_namespaced_pod(
            namespace,
            OFFICIAL.client.V1Pod(
                metadata=OFFICIAL.client.V1ObjectMeta(generate_name="p-"),
                spec=OFFICIAL.client.V1PodSpec(containers=[OFFICIAL.client.V1Container(name="c", image="i")]),
            ),
        )
        assert core.read_namespaced_pod(pod.metadata.name, namespace).status.phase == "Pending"
        assert [p.metadata.name for p in core.list_namespaced_pod(namespace).items] == [pod.metadata.name]
    finally:
        api_client.close()
