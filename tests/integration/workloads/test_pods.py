"""Pods as kubectl's users know them: running, completed, crashing, refused, deleted, and over a restart of the node."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.integration.workloads.pod_cluster import Cluster
from tests.waiting import eventually

RECEIVER = {"EVENT_GENERATORS": "receiver", "EVENT_LOGS": "logger,recorder"}
SENDER = {"EVENT_GENERATORS": "sender", "EVENT_LOGS": "logger,recorder", "DELAY": "0", "PERIOD": "50ms"}
EVENT = json.dumps({"specversion": "1.0", "type": "t", "source": "/s", "datacontenttype": "text/plain", "data": "hi"})


def ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return conditions.get("Ready") == "True"


def phase(wanted: str) -> Any:
    return lambda pod: pod.get("status", {}).get("phase") == wanted


def post(pod: dict[str, Any], ident: str) -> int:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": ident,
        "ce-source": "/test",
        "ce-type": "t",
        "content-type": "text/plain",
    }
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8080, timeout=60)
    try:
        connection.request("POST", "/", b"hello", headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_receiver_runs_and_records(cluster: Cluster) -> None:
    cluster.run("receiver", SKIP_ALGORITHM="fibonacci", **RECEIVER)
    pod = cluster.until("receiver", ready)
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["nodeName"] == "penstock"
    assert pod["status"]["podIP"].startswith("127.66.")
    assert [post(pod, str(number)) for number in range(1, 6)] == [202, 202, 202, 409, 202]
    reports = cluster.reports("receiver")
    assert [(info["kind"], info["sequence"]) for info in reports] == [
        ("Received", 1),
        ("Received", 2),
        ("Received", 3),
        ("Rejected", 1),
        ("Received", 4),
    ]
    names = cluster.kubectl("get", "events", "--field-selector", "reason=CloudEventObserved", "-o", "name")
    assert "event/receiver.Rejected.1" in names.split()
    assert cluster.kubectl("logs", "receiver").count('"kind":"Received"') == 4


def test_a_sender_sends_and_completes(cluster: Cluster) -> None:
    cluster.run("target", **RECEIVER)
    address = f"http://{cluster.until('target', ready)['status']['podIP']}:8080/any/path"
    cluster.run(
        "sender",
        image="ko.local/eventshub:latest",
        restart="Never",
        SINK=address,
        INPUT_EVENT=EVENT,
        MAX_MESSAGES="3",
        EVENT_ENCODING="structured",
        INCREMENTAL_ID="true",
        **SENDER,
    )
    cluster.until("sender", phase("Succeeded"))
    received = cluster.reports("target")
    assert [info["event"]["id"] for info in received] == ["1", "2", "3"]
    assert {info["event"]["data"] for info in received} == {"hi"}
    assert received[0]["httpHeaders"]["Content-Type"][0].startswith("application/cloudevents+json")
    sent = cluster.reports("sender")
    assert [info["statusCode"] for info in sent if info["kind"] == "Response"] == [202, 202, 202]
    assert "Completed" in cluster.kubectl("get", "pod", "sender")


def test_a_broken_environment_crashes_in_a_loop(cluster: Cluster) -> None:
    cluster.run("broken", EVENT_GENERATORS="reciever")

    def waits_after_a_crash(pod: dict[str, Any]) -> bool:
        (container,) = pod.get("status", {}).get("containerStatuses") or [{}]
        waiting = container.get("state", {}).get("waiting", {})
        return "lastState" in container and waiting.get("reason") == "CrashLoopBackOff"

    pod = cluster.until("broken", waits_after_a_crash)
    (container,) = pod["status"]["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert "EVENT_GENERATORS names reciever" in container["lastState"]["terminated"]["message"]
    assert not ready(pod)
    assert "EVENT_GENERATORS names reciever" in cluster.kubectl("logs", "broken")
    eventually(lambda: "CrashLoopBackOff" in cluster.kubectl("get", "pod", "broken"))


def test_a_broken_environment_fails_where_it_may_not_restart(cluster: Cluster) -> None:
    cluster.run("once", restart="Never", **(SENDER | {"SINK": "nowhere", "INPUT_EVENT": EVENT}))
    pod = cluster.until("once", phase("Failed"))
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_a_missing_configmap_is_waited_for(cluster: Cluster) -> None:
    reference = {"configMapKeyRef": {"name": "roles", "key": "role"}}
    env = [
        {"name": "EVENT_GENERATORS", "valueFrom": reference},
        {"name": "EVENT_LOGS", "value": "logger"},
    ]
    container = {"name": "main", "image": "recordevents", "env": env}
    cluster.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "configured"}, "spec": {"containers": [container]}}
    )

    def reason(pod: dict[str, Any]) -> bool:
        (status,) = pod.get("status", {}).get("containerStatuses") or [{}]
        return bool(status.get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError")

    assert cluster.until("configured", reason)["status"]["phase"] == "Pending"
    cluster.kubectl("create", "configmap", "roles", "--from-literal=role=receiver")
    cluster.until("configured", ready)


def test_another_image_stays_pending_and_says_which_setting_to_add(cluster: Cluster) -> None:
    cluster.run("web", image="docker.io/library/nginx:1")
    pod = cluster.until("web", lambda pod: pod.get("status", {}).get("containerStatuses"))
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (pod["status"]["phase"], waiting["reason"]) == ("Pending", "ImagePullBackOff")
    assert '[images] "docker.io/library/nginx" = ' in waiting["message"]
    eventually(
        lambda: (
            "Failed to pull image" in cluster.kubectl("get", "events", "--field-selector", "involvedObject.name=web")
        ),
        60,
    )


def test_a_deleted_pod_finishes_its_requests_and_is_gone(cluster: Cluster) -> None:
    cluster.run("slow", RESPONSE_WAIT_TIME="1s", **RECEIVER)
    pod = cluster.until("slow", ready)
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8080, timeout=60)
    connection.request("POST", "/", b"", {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"})
    eventually(lambda: cluster.reports("slow"))
    cluster.kubectl("delete", "pod", "slow", "--wait=false")
    assert connection.getresponse().status == 202
    connection.close()
    eventually(lambda: "NotFound" in cluster.kubectl("get", "pod", "slow", check=False))
    with pytest.raises(OSError):  # noqa: PT011  # refused, whatever the system calls it
        post(pod, "2")
    eventually(lambda: not (cluster.settings.data_dir / "logs" / "pods" / "default" / "slow").exists(), 60)


def test_pods_start_again_with_their_node(cluster: Cluster) -> None:
    cluster.run("survivor", **RECEIVER)
    cluster.run(
        "mortal", restart="Never", **(SENDER | {"SINK": "http://127.0.0.1:1", "INPUT_EVENT": EVENT, "DELAY": "1h"})
    )
    assert post(cluster.until("survivor", ready), "1") == 202
    cluster.until("mortal", ready)
    cluster.stop_node()
    cluster.start_node()
    again = cluster.until(
        "survivor", lambda pod: ready(pod) and pod["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    assert post(again, "2") == 202
    assert [info["event"]["id"] for info in cluster.reports("survivor")] == ["1", "2"]
    assert cluster.until("mortal", phase("Failed"))["status"]["reason"] == "NodeLost"


def test_the_node_outlives_an_api_that_is_away(cluster: Cluster) -> None:
    cluster.run("steady", **RECEIVER)
    pod = cluster.until("steady", ready)
    cluster.restart_api()
    assert post(pod, "1") == 202
    assert cluster.until("steady", ready)["status"]["podIP"] == pod["status"]["podIP"]
    cluster.run("newcomer", **RECEIVER)
    cluster.until("newcomer", ready)


def test_a_pod_with_two_containers_shares_its_address(cluster: Cluster) -> None:
    def container(name: str, **env: str) -> dict[str, Any]:
        return {
            "name": name,
            "image": "eventshub",
            "env": [{"name": key, "value": value} for key, value in env.items()],
        }

    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    sender = container(
        "sender", **(SENDER | {"EVENT_LOGS": "logger", "SINK": "http://$(IP):8080", "INPUT_EVENT": EVENT})
    )
    sender["env"].insert(0, ip)
    receiver = container("receiver", EVENT_GENERATORS="receiver", EVENT_LOGS="logger")
    spec = {"restartPolicy": "Never", "containers": [receiver, sender]}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pair"}, "spec": spec})
    eventually(lambda: '"statusCode":202' in cluster.kubectl("logs", "pair", "-c", "sender", check=False))
    cluster.kubectl("delete", "pod", "pair", "--now")
