"""The files under `examples/` do what their first lines promise, each in a namespace of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import Stack
from tests.waiting import eventually

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def namespace(stack: Stack, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"example-{request.node.callspec.id if hasattr(request.node, 'callspec') else 'types'}"
    stack.kubectl("create", "namespace", name)
    yield name
    stack.kubectl("delete", "namespace", name, "--wait=false", check=False)


def run(stack: Stack, namespace: str, file: str, *ready: str) -> None:
    stack.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / file))
    stack.kubectl("wait", "-n", namespace, "--for=condition=Ready", *ready, "--timeout=120s", timeout=130)


def send(url: str, kind: str, data: str, content_type: str) -> None:
    headers = ["ce-specversion: 1.0", "ce-id: 1", "ce-source: /me", f"ce-type: {kind}", f"content-type: {content_type}"]
    flags = [flag for header in headers for flag in ("-H", header)]
    sent = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url, *flags, "-d", data],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sent.stdout == "202"


@pytest.mark.parametrize(
    ("file", "flow", "pod", "received"),
    [
        ("sequence.yaml", "sequence/greeting", "recorder", "hello brave world"),
        ("parallel.yaml", "parallel/choice", "listener", "hello from the open branch"),
    ],
    ids=["sequence", "parallel"],
)
def test_an_event_passes_through_a_flow(
    stack: Stack, namespace: str, file: str, flow: str, pod: str, received: str
) -> None:
    run(stack, namespace, file, flow, f"pod/{pod}")
    url = stack.kubectl("get", "-n", namespace, flow, "-o", "jsonpath={.status.address.url}")
    send(url, "greeting", "hello", "text/plain")
    eventually(lambda: received in stack.kubectl("logs", "-n", namespace, pod), 120)


@pytest.mark.parametrize(
    ("file", "ready", "kind", "selector", "received"),
    [
        (
            "kservice.yaml",
            ("ksvc/event-display", "trigger/display"),
            "greeting",
            "serving.knative.dev/service=event-display",
            '"price": 2',
        ),
        (
            "eventtransform.yaml",
            ("eventtransform/to-order", "trigger/raw", "trigger/orders", "pod/orders"),
            "raw",
            "app=orders",
            '"total": 6',
        ),
    ],
    ids=["kservice", "eventtransform"],
)
def test_a_subscriber_gets_what_a_broker_accepts(
    stack: Stack, namespace: str, file: str, ready: tuple[str, ...], kind: str, selector: str, received: str
) -> None:
    run(stack, namespace, file, *ready)
    broker = f"http://127.0.0.1:{stack.settings.port}/{namespace}/default"
    send(broker, kind, '{"item": "bolt", "price": 2, "amount": 3}', "application/json")
    eventually(lambda: received in stack.kubectl("logs", "-n", namespace, "-l", selector, "--tail=-1"), 120)


@pytest.mark.parametrize("file", ["integrations.yaml"], ids=["integrations"])
def test_events_of_a_timer_are_logged(stack: Stack, namespace: str, file: str) -> None:
    run(stack, namespace, file, "integrationsink/shown", "integrationsource/every-second")
    selector = "sinks.knative.dev/integration-sink-name=shown"
    line = "BodyType: byte[], Body: hello]"
    eventually(lambda: line in stack.kubectl("logs", "-n", namespace, "-l", selector, "--tail=-1"), 120)


def test_types_are_described_and_found_out(stack: Stack, namespace: str) -> None:
    run(stack, namespace, "eventtype.yaml", "eventtype/order-created", "broker/default")
    features = ("patch", "configmap", "config-features", "-n", "knative-eventing", "--type", "merge", "-p")
    stack.kubectl(*features, '{"data": {"eventtype-auto-create": "enabled"}}')
    try:
        eventually(lambda: _found_out(stack, namespace), 120)
    finally:
        stack.kubectl(*features, '{"data": {"eventtype-auto-create": "disabled"}}')


def _found_out(stack: Stack, namespace: str) -> bool:
    send(f"http://127.0.0.1:{stack.settings.port}/{namespace}/default", "passing.by", "{}", "application/json")
    return "passing.by" in stack.kubectl("get", "eventtypes", "-n", namespace)
