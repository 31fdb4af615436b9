"""Services in front of Pods, on the whole stack: nothing selected, wrong ports, two names for one, a Pod that goes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "services"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: services, labels: {{app: {app}}}}}
spec:
  containers:
    - name: hub
      image: eventshub
      ports: [{{containerPort: 8080}}]
      env:
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        - {{name: SYSTEM_NAMESPACE, value: services}}
        - {{name: EVENT_GENERATORS, value: receiver}}
        - {{name: EVENT_LOGS, value: "recorder,logger"}}
        - {{name: RESPONSE_WAIT_TIME, value: "{wait}"}}
"""
SCENE = """
apiVersion: v1
kind: Namespace
metadata: {name: services}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: hub, namespace: services}
"""
ROUTE = """
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: services}}
spec:
  selector: {{app: {app}}}
  ports: [{{name: http, port: 80, targetPort: {port}}}]
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: {name}, namespace: services}}
spec:
  broker: hub
  filter: {{attributes: {{type: {type}}}}}
  subscriber: {{ref: {{apiVersion: v1, kind: Service, name: {name}}}}}
  delivery:
    retry: {retry}
    backoffPolicy: linear
    backoffDelay: PT1S
    deadLetterSink: {{ref: {{apiVersion: v1, kind: Service, name: letters}}}}
"""


@pytest.fixture(scope="module")
def scene(stack: Stack) -> Iterator[Stack]:
    parts = [
        SCENE,
        POD.format(name="one", app="one", wait="0"),
        POD.format(name="letters", app="letters", wait="0"),
        POD.format(name="leaving", app="leaving", wait="60s"),
        ROUTE.format(name="letters", app="letters", port=8080, type="unused", retry=0),
        ROUTE.format(name="empty", app="nobody", port=8080, type="empty", retry=1),
        ROUTE.format(name="wrong-port", app="one", port=9999, type="wrong-port", retry=1),
        ROUTE.format(name="first", app="one", port=8080, type="both", retry=0),
        ROUTE.format(name="second", app="one", port=8080, type="both", retry=0),
        ROUTE.format(name="leaving", app="leaving", port=8080, type="leaving", retry=10),
    ]
    stack.apply("---".join(parts))
    stack.kubectl(
        "wait", "-n", NAMESPACE, "--for=condition=Ready", "--timeout=150s", "triggers,pods", "--all", timeout=170
    )
    yield stack
    stack.kubectl("delete", "namespace", NAMESPACE)


def send(stack: Stack, event_type: str, ident: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": ident, "ce-source": "/test", "ce-type": event_type}
    connection = http.client.HTTPConnection("127.0.0.1", stack.settings.port, timeout=60)
    connection.request("POST", f"/{NAMESPACE}/hub", b"", headers)
    assert connection.getresponse().status == 202
    connection.close()


def reports(stack: Stack, pod: str, ident: str) -> list[dict[str, Any]]:
    fields = f"reason=CloudEventObserved,involvedObject.name={pod}"
    events = json.loads(stack.kubectl("get", "events", "-n", NAMESPACE, "--field-selector", fields, "-o", "json"))
    found = [json.loads(event["message"]) for event in events["items"]]
    return [info for info in found if info.get("event", {}).get("id") == ident]


@pytest.mark.parametrize("service", ["empty", "wrong-port"])
def test_a_service_that_leads_nowhere_fails_deliveries_until_they_are_dead_letters(scene: Stack, service: str) -> None:
    send(scene, service, f"to-{service}")
    (letter,) = eventually(lambda: reports(scene, "letters", f"to-{service}"), 120)
    assert letter["event"]["knativeerrordest"].startswith(f"http://{service}.{NAMESPACE}.svc")
    endpoints = json.loads(scene.kubectl("get", "endpoints", "-n", NAMESPACE, service, "-o", "json"))
    addresses = [one["ip"] for subset in endpoints.get("subsets") or () for one in subset.get("addresses") or ()]
    assert bool(addresses) is (service == "wrong-port")


def test_two_services_with_one_selector_lead_to_the_same_pod(scene: Stack) -> None:
    send(scene, "both", "twice")
    found = eventually(lambda: len(seen := reports(scene, "one", "twice")) == 2 and seen, 120)
    hosts = {info["httpHeaders"]["Host"][0] for info in found}
    assert hosts == {f"first.{NAMESPACE}.svc.cluster.local", f"second.{NAMESPACE}.svc.cluster.local"}


def test_an_event_on_its_way_to_a_pod_that_goes_reaches_the_next_one(scene: Stack) -> None:
    send(scene, "leaving", "moving")
    eventually(lambda: reports(scene, "leaving", "moving"), 120)
    scene.kubectl("delete", "pod", "-n", NAMESPACE, "leaving", "--force", "--grace-period=0")
    scene.apply(POD.format(name="next", app="leaving", wait="0"))
    eventually(lambda: reports(scene, "next", "moving"), 120)
