"""On a whole stack: a subscriber that is down shows in status, Events and on the terminal, and the commands see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.running import Stack, held_ports
from tests.waiting import eventually

NAMESPACE = "operate"


@pytest.fixture(scope="module", autouse=True)
def namespace(stack: Stack) -> None:
    stack.kubectl("create", "namespace", NAMESPACE)
    run(stack, "create", "broker")


def command(stack: Stack, *arguments: str) -> list[str]:
    return stack.command(*arguments, "--namespace", NAMESPACE)


def run(stack: Stack, *arguments: str, code: int = 0) -> str:
    """A command of `penstock` in the namespace of these tests."""
    return stack.penstock(*arguments, "--namespace", NAMESPACE, code=code)


@contextmanager
def beside(line: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the test does; what it prints comes line by line."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as running:
        try:
            yield running
        finally:
            running.terminate()


def condition(stack: Stack, name: str, field: str) -> str:
    path = '{.status.conditions[?(@.type=="Delivering")].' + field + "}"
    return stack.kubectl("-n", NAMESPACE, "get", "trigger", name, "-o", f"jsonpath={path}")


def reasons(stack: Stack, name: str) -> set[str]:
    found = stack.kubectl(
        "-n", NAMESPACE, "get", "events", "-o", "json", "--field-selector", f"involvedObject.name={name}"
    )
    return {event["reason"] for event in json.loads(found)["items"]}


def test_a_subscriber_that_is_down_shows_itself_and_so_does_its_return(stack: Stack) -> None:
    [port] = held_ports(1)
    run(stack, "create", "trigger", "down", "--subscriber", f"http://127.0.0.1:{port}/")
    assert "accepted" in run(stack, "send", "{}", "--id", "1")
    eventually(lambda: condition(stack, "down", "status") == "False", 120)
    assert condition(stack, "down", "severity") == "Warning"
    assert condition(stack, "down", "reason") == "ConnectionRefused"
    wide = ("get", "trigger/down", "--wide")
    eventually(lambda: run(stack, *wide).splitlines()[1].split()[-3:-1] == ["ConnectionRefused", "1"], 120)
    stack.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "trigger/down", "--timeout=60s", timeout=80)
    line = f"trigger/down in {NAMESPACE}: http://127.0.0.1:{port}/ refuses connections"
    eventually(lambda: any(said.startswith(line) for said in stack.output), 120)
    assert "trigger/down" in run(stack, "lag")
    listening = [sys.executable, "-m", "penstock.cli", "listen", "--port", str(port), "--count", "1", "--json"]
    with beside(listening) as listener:
        assert listener.stdout is not None
        assert json.loads(listener.stdout.readline())["id"] == "1"
        eventually(lambda: condition(stack, "down", "status") == "True", 120)
    eventually(lambda: reasons(stack, "down") >= {"DeliveryFailed", "DeliveryRecovered"}, 120)
    run(stack, "delete", "trigger/down")


def test_a_drop_is_never_silent(stack: Stack) -> None:
    [port] = held_ports(1)
    manifest = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "dropper", "namespace": NAMESPACE},
        "spec": {"broker": "default", "delivery": {"retry": 0}, "subscriber": {"uri": f"http://127.0.0.1:{port}/"}},
    }
    stack.apply(json.dumps(manifest))
    stack.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "trigger/dropper", "--timeout=120s", timeout=140)
    said = run(stack, "send", "{}", "--watch", code=1)
    assert "dropped" in said
    assert "delivered to 0 of 1 route" in said
    eventually(lambda: "EventsDropped" in reasons(stack, "dropper"), 120)
    run(stack, "delete", "trigger/dropper")


def test_events_and_deliveries_can_be_watched_as_they_come(stack: Stack) -> None:
    with (
        beside(command(stack, "listen", "--broker", "default", "--filter", "type=seen")) as listener,
        beside(command(stack, "tail", "broker/default", "--filter", "type=seen", "--count", "1", "--json")) as events,
        beside(command(stack, "tail", "--deliveries", "--filter", "type=seen", "--count", "1", "--json")) as deliveries,
    ):
        assert listener.stderr is not None
        assert "listening" in listener.stderr.readline()

        def both_have_seen_one() -> bool:
            # They show what comes while they run; when that begins, nobody tells.
            run(stack, "send", '{"n": 1}', "--type", "seen")
            run(stack, "send", '{"n": 1}', "--type", "unseen")
            return events.poll() is not None and deliveries.poll() is not None

        eventually(both_have_seen_one, 240)
        assert events.stdout is not None
        assert deliveries.stdout is not None
        assert json.loads(events.stdout.readline())["type"] == "seen"
        assert json.loads(deliveries.stdout.readline())["result"] == "delivered"
        routes = json.loads(stack.penstock("top", "--json"))
        assert any(route["namespace"] == NAMESPACE for route in routes)


def test_a_paused_route_holds_its_events(stack: Stack) -> None:
    with beside(command(stack, "listen", "--broker", "default", "--filter", "type=held", "--json")) as listener:
        assert listener.stderr is not None
        assert listener.stdout is not None
        assert "listening" in listener.stderr.readline()
        found = json.loads(run(stack, "get", "triggers", "--json"))["items"]
        [name] = [one["metadata"]["name"] for one in found if "held" in str(one["spec"].get("filters"))]
        run(stack, "pause", name)
        stack.kubectl(
            "-n", NAMESPACE, "wait", "--for=condition=Ready", f"trigger/{name}", "--timeout=120s", timeout=140
        )
        eventually(lambda: condition(stack, name, "reason") == "Paused", 120)
        run(stack, "send", "{}", "--type", "held", "--id", "held")
        run(stack, "resume", name)
        assert json.loads(listener.stdout.readline())["id"] == "held"
