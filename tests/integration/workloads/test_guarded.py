"""EventTransforms and IntegrationSinks where tokens are asked for, over TLS, on the whole stack, as Pods see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import Stack
from tests.waiting import eventually

NAMESPACE = "guarded"
FEATURES = ("authentication-oidc", "enabled"), ("transport-encryption", "strict")
SCENE = """
apiVersion: v1
kind: Namespace
metadata: {name: guarded}
---
apiVersion: sinks.knative.dev/v1alpha1
kind: IntegrationSink
metadata: {name: logging, namespace: guarded}
spec: {log: {showHeaders: true}}
---
apiVersion: eventing.knative.dev/v1alpha1
kind: EventTransform
metadata: {name: changing, namespace: guarded}
spec:
  jsonata:
    expression: '{"specversion": "1.0", "id": id, "source": source, "type": "changed"}'
"""
SCRIPT = """
printf '%s' "$CA" > "$TMPDIR/ca.pem"
event='{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
type='content-type: application/cloudevents+json'
send() { curl -sS --max-time 30 -w ' %{http_code}\\n' -H "$type" -d "$event" --cacert "$TMPDIR/ca.pem" "$@"; }
send "$URL" -H "authorization: Bearer $TOKEN"
send "$URL" -o /dev/null
send "$URL" -o /dev/null -H "authorization: Bearer $OTHER"
exit 0
"""


@pytest.fixture(scope="module")
def guarded(stack: Stack) -> Iterator[Stack]:
    switch(stack, dict(FEATURES))
    stack.apply(SCENE)
    yield stack
    switch(stack, {name: "disabled" for name, _ in FEATURES})
    # Others use the stack after this: the control plane has to have heard of it.
    eventually(lambda: "audience" not in address_of(stack, "integrationsink/logging"), 120)
    stack.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def switch(stack: Stack, features: dict[str, str]) -> None:
    patch = json.dumps({"data": features})
    stack.kubectl("patch", "configmap", "config-features", "-n", "knative-eventing", "--type", "merge", "-p", patch)


def address_of(stack: Stack, place: str) -> dict[str, Any]:
    status = json.loads(stack.kubectl("-n", NAMESPACE, "get", place, "-o", "json")).get("status") or {}
    assert status.get("address"), status
    return dict(status["address"])


def guarded_address(stack: Stack, place: str) -> dict[str, Any]:
    address = address_of(stack, place)
    assert (address["name"], "audience" in address) == ("https", True)
    return address


@pytest.mark.parametrize(
    ("place", "taken"),
    [("integrationsink/logging", " 204"), ("eventtransform/changing", '"type":"changed"} 200')],
    ids=["integrationsink", "eventtransform"],
)
def test_only_requests_with_a_token_for_it_are_taken(guarded: Stack, tmp_path: Path, place: str, taken: str) -> None:
    address = eventually(lambda: guarded_address(guarded, place), 120)
    token = ("-n", NAMESPACE, "create", "token", "default", "--audience")
    env = {"CA": address["CACerts"], "URL": address["url"], "TMPDIR": str(tmp_path)}
    env |= {
        "TOKEN": guarded.kubectl(*token, address["audience"]).strip(),
        "OTHER": guarded.kubectl(*token, "somebody-else").strip(),
    }
    name = place.replace("/", "-")
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
    guarded.apply(json.dumps(pod))
    ended = ("--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=120s")
    guarded.kubectl("-n", NAMESPACE, "wait", *ended, timeout=150)
    said = guarded.kubectl("-n", NAMESPACE, "logs", name)
    assert [taken in said.splitlines()[0], *said.split("\n", 1)[1].split()] == [True, "401", "401"], said
