"""JobSinks and EventTransforms with `transport-encryption: strict`, on the whole stack, as Pods see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "encrypted"
SCENE = """
apiVersion: v1
kind: Namespace
metadata: {name: encrypted}
---
apiVersion: sinks.knative.dev/v1alpha1
kind: JobSink
metadata: {name: taking, namespace: encrypted}
spec:
  job:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: test/shell, command: ["true"]}]
---
apiVersion: eventing.knative.dev/v1alpha1
kind: EventTransform
metadata: {name: changing, namespace: encrypted}
spec:
  jsonata:
    expression: '{"specversion": "1.0", "id": id, "source": source, "type": "changed"}'
"""
SCRIPT = """
printf '%s' "$CA" > "$TMPDIR/ca.pem"
event='{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
type='content-type: application/cloudevents+json'
send() { curl -sS --max-time 30 -w ' %{http_code}\\n' -H "$type" -d "$event" "$@"; }
send --cacert "$TMPDIR/ca.pem" "$URL"
send "$URL" 2>&1
send "http${URL#https}"
exit 0
"""


@pytest.fixture(scope="module")
def strict(stack: Stack) -> Iterator[Stack]:
    feature = ("patch", "configmap", "config-features", "-n", "knative-eventing", "--type", "merge", "-p")
    stack.kubectl(*feature, '{"data": {"transport-encryption": "strict"}}')
    stack.apply(SCENE)
    yield stack
    stack.kubectl(*feature, '{"data": {"transport-encryption": "disabled"}}')
    # Others use the stack after this: the control plane has to have heard of it.
    eventually(lambda: address_of(stack, "jobsink/taking", "http"), 120)
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def address_of(stack: Stack, place: str, scheme: str = "https") -> dict[str, Any]:
    """Its only address."""
    status = json.loads(stack.kubectl("-n", NAMESPACE, "get", place, "-o", "json")).get("status") or {}
    [address] = status.get("addresses") or [{"name": None}]
    assert address["name"] == scheme, status
    return dict(address)


@pytest.mark.parametrize(
    ("place", "taken", "refused"),
    [("jobsink/taking", [" 202"], "404"), ("eventtransform/changing", ['"type":"changed"', " 200"], "503")],
    ids=["jobsink", "eventtransform"],
)
def test_events_are_taken_over_tls_by_the_authority_of_the_address(
    strict: Stack, tmp_path: Path, place: str, taken: list[str], refused: str
) -> None:
    address = eventually(lambda: address_of(strict, place), 120)
    name = place.replace("/", "-")
    env = {"CA": address["CACerts"], "URL": address["url"], "TMPDIR": str(tmp_path)}
    container = {
        "name": "main",
        "image": "test/shell",
        "command": ["sh", "-c", SCRIPT],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    strict.apply(json.dumps(pod))
    ended = ("--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=120s")
    strict.kubectl("-n", NAMESPACE, "wait", *ended, timeout=150)
    said = strict.kubectl("-n", NAMESPACE, "logs", name)
    believed, rest = said.split("\n", 1)
    assert all(part in believed for part in taken), said
    assert ("certificate" in rest, " 000\n" in rest) == (True, True), "who does not know the authority sends nothing"
    assert rest.rstrip().endswith(f" {refused}"), said
