"""On a whole stack: every event is accounted for, route by route, whatever becomes of it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.running import Stack
from tests.subscribers import Subscribers, listening
from tests.waiting import eventually

NAMESPACE = "verify"
EVENTS = 12


@pytest.fixture
def subscribers() -> Iterator[Subscribers]:
    with listening() as serving:
        yield serving


def trigger(name: str, url: str, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if name == "paused":
        metadata["annotations"] = {"penstock.dev/paused": "true"}
    return {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": metadata,
        "spec": {"broker": "default", "subscriber": {"uri": f"{url}/{name}"}, **spec},
    }


def verified(stack: Stack, *arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        stack.penstock("verify", *arguments, "--namespace", NAMESPACE, "--json", code=code)
    )
    return found


def fates(found: dict[str, Any]) -> dict[str, dict[str, int]]:
    """By route, what is not zero."""
    shown = ("delivered", "retrying", "waiting", "dead-lettered", "dropped", "redriven", "expired", "lost")
    return {route["name"]: {fate: route[fate] for fate in shown if route[fate]} for route in found["routes"]}


def test_every_event_is_accounted_for(stack: Stack, subscribers: Subscribers) -> None:
    subscribers.statuses = {"/dead": 400, "/dropped": 400, "/retried": 503}
    sink = {"uri": f"{subscribers.url}/sink"}
    slowly = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT1H"}
    triggers = [
        trigger("taken", subscribers.url),
        trigger("half", subscribers.url, filters=[{"suffix": {"subject": "even"}}]),
        trigger("dead", subscribers.url, delivery={"retry": 0, "deadLetterSink": sink}),
        trigger("dropped", subscribers.url, delivery={"retry": 0}),
        trigger("retried", subscribers.url, delivery=slowly),
        trigger("paused", subscribers.url),
    ]
    stack.kubectl("create", "namespace", NAMESPACE)
    stack.penstock("create", "broker", "--namespace", NAMESPACE)
    stack.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": triggers}))
    every = [f"trigger/{one['metadata']['name']}" for one in triggers]
    stack.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", *every, "--timeout=120s", timeout=140)
    for number in range(EVENTS):
        send(stack, f"event-{number}", "even" if number % 2 == 0 else "odd")
    expected: dict[str, dict[str, int]] = {
        "taken": {"delivered": EVENTS},
        "half": {"delivered": EVENTS // 2},
        "dead": {"dead-lettered": EVENTS},
        "dropped": {"dropped": EVENTS},
        "retried": {"retrying": EVENTS},
        "paused": {"waiting": EVENTS},
    }
    eventually(lambda: fates(verified(stack)) == expected, 240)
    found = verified(stack)
    assert {route["accepted"] for route in found["routes"]} == {found["accepted"]} == {EVENTS}
    assert (found["lost"], found["missing"]) == (0, [])
    subscribers.statuses.clear()
    stack.penstock("redrive", "trigger/dropped", "--watch", "--namespace", NAMESPACE)
    stack.penstock("resume", "trigger/paused", "--namespace", NAMESPACE)
    expected |= {"dropped": {"redriven": EVENTS}, "paused": {"delivered": EVENTS}}
    eventually(lambda: fates(verified(stack)) == expected, 240)
    assert fates(verified(stack, "trigger/half", "--since", "1h")) == {"half": expected["half"]}
    said = stack.penstock("verify", "--namespace", NAMESPACE)
    assert said.splitlines()[0].split() == [
        "due",
        "delivered",
        "retrying",
        "waiting",
        "dead-lettered",
        "redriven",
        "lost",
        "route",
    ]
    assert said.splitlines()[-1].endswith("none lost")


def test_what_cannot_be_verified_is_not_taken_for_a_loss(stack: Stack) -> None:
    stack.penstock("verify", "trigger/unheard-of", code=2)
    stack.penstock("verify", "broker/default", code=2)
    stack.penstock("verify", "--since", "2999-01-01T00:00:00Z", code=2)


def send(stack: Stack, ident: str, subject: str) -> None:
    headers = {
        "ce-id": ident,
        "ce-source": "/verify",
        "ce-type": "verify",
        "ce-specversion": "1.0",
        "ce-subject": subject,
    }
    url = f"{stack.settings.ingress_url}/{NAMESPACE}/default"
    request = urllib.request.Request(url, b"{}", headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 202
