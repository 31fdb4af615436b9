"""The document of the event delivery tests, followed by hand: its own commands, with the real kubectl, in a shell.

Five of the thirteen tests are done like this; all thirteen are done by the runner. The commands are the document's,
word for word, run from the folder that holds `control-plane/`, and what they print is compared with its outputs.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.conformance.catalog import NAMESPACE, find
from penstock.conformance.judging import judge, read
from tests.conformance.world import Sinks
from tests.running import Stack, kubectl_program
from tests.waiting import eventually

FOLDER = Path(__file__).parents[2] / "conformance"
FILES = "control-plane/event-delivery"
LATE_SECONDS = 10
"""By so much later than told a retry may come on a machine that pauses; when it is due is for unit tests to say."""
READY = (
    "kubectl get -n conformance {kinds},pods -ojsonpath=\"{{range .items[*]}}{{@.kind}}{{'/'}}{{@.metadata.name}}"
    "{{' ready: '}}{{@.status.conditions[?(@.type=='Ready')].status}}{{'\\n'}}{{end}}\""
)
WATCH = (
    "exec kubectl get events -n conformance --field-selector reason=CloudEventObserved,involvedObject.name="
    "$(kubectl get pods -n conformance -l component={sink} -o jsonpath='{{.items[0].metadata.name}}') "
    "-w --output=custom-columns=:.message"
)


class Person:
    """Somebody with a shell."""

    def __init__(self, stack: Stack) -> None:
        folder = str(Path(kubectl_program()).parent)
        self._env = {**os.environ, "KUBECONFIG": str(stack.kubeconfig), "PATH": f"{folder}:{os.environ['PATH']}"}

    def run(self, command: str) -> str:
        """What a command prints; a command that fails fails the test."""
        ran = subprocess.run(
            ["sh", "-c", command], cwd=FOLDER, env=self._env, capture_output=True, text=True, timeout=240, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def ready(self, kinds: str, *expected: str) -> None:
        """Waits for the document's expected output; generated parts of names are left out of the comparison."""

        def look() -> bool:
            lines = [line for line in self.run(READY.format(kinds=kinds)).splitlines() if line]
            seen = sorted(_without_suffix(line) for line in lines)
            assert seen == sorted(expected), lines
            return True

        assert eventually(look, 120)

    @contextmanager
    def watching(self, sink: str) -> Iterator[list[str]]:
        """A second shell that watches what a sink reports. The list grows while it does."""
        process = subprocess.Popen(
            ["sh", "-c", WATCH.format(sink=sink)],
            cwd=FOLDER,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        seen: list[str] = []

        def read() -> None:
            assert process.stdout is not None
            # One at a time: the list is read while it grows.
            for line in process.stdout:
                if line.strip():
                    seen.append(line)  # noqa: PERF401

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield seen
        finally:
            process.terminate()
            process.wait(60)
            reader.join(60)
            assert process.stdout is not None
            process.stdout.close()


def _without_suffix(line: str) -> str:
    kind_and_name, _, ready = line.partition(" ready: ")
    stem = kind_and_name.rpartition("-")[0] if kind_and_name.startswith("Pod/") else kind_and_name
    return f"{stem} ready: {ready}"


@pytest.fixture(scope="module")
def person(stack: Stack, sinks: Sinks) -> Iterator[Person]:
    somebody = Person(stack)
    somebody.run(f"kubectl create -f {FILES}/00-prepare.yaml")
    yield somebody
    somebody.run(f"kubectl delete -f {FILES}/00-prepare.yaml")


def judged(number: str, **seen: list[str]) -> list[str]:
    """What differs from the document's outputs; the lines that were seen are by sink."""
    test = find(number)
    assert test is not None
    observed = {name.replace("_", "-"): read(lines) for name, lines in seen.items()}
    return judge(test, NAMESPACE, observed, LATE_SECONDS)


@pytest.mark.assertion("et-delivery-01")
def test_01_channel_ack(person: Person) -> None:
    person.run(f"kubectl create -f {FILES}/01-00-channel-ack.yaml")
    person.ready("subscriptions", "Subscription/channel-ack ready: True", "Pod/sink-ack ready: True")
    with person.watching("sink-ack") as seen:
        person.run(f"kubectl create -f {FILES}/01-01-channel-ack.yaml")
        eventually(lambda: len(seen) == 1)
    assert judged("01", sink_ack=seen) == []
    assert list(json.loads(seen[0])) == ["kind", "event", "httpHeaders", "origin", "observer", "time", "sequence"]
    eventually(lambda: '"kind":"Sent"' in person.run("kubectl logs -n conformance emitter"))
    phase = "kubectl get pod -n conformance emitter -o jsonpath='{.status.phase}'"
    eventually(lambda: "Succeeded" in person.run(phase))
    person.run("kubectl delete all -n conformance -l case=channel-ack")
    assert person.run("kubectl get all -n conformance -l case=channel-ack -o name") == ""


@pytest.mark.assertion("et-delivery-01")
def test_02_broker_ack(person: Person) -> None:
    person.run(f"kubectl create -f {FILES}/02-00-broker-ack.yaml")
    person.ready("triggers", "Trigger/broker-ack ready: True", "Pod/sink-ack ready: True")
    with person.watching("sink-ack") as seen:
        person.run(f"kubectl create -f {FILES}/02-01-broker-ack.yaml")
        eventually(lambda: len(seen) == 1)
    assert judged("02", sink_ack=seen) == []
    person.run("kubectl delete all -n conformance -l case=broker-ack")


@pytest.mark.assertion("et-delivery-02")
def test_05_channel_retry_linear(person: Person) -> None:
    person.run(f"kubectl create -f {FILES}/05-00-channel-retry-linear.yaml")
    person.ready("subscriptions", "Subscription/channel-retry-linear ready: True", "Pod/sink-3nack ready: True")
    with person.watching("sink-3nack") as seen:
        person.run(f"kubectl create -f {FILES}/05-01-channel-retry-linear.yaml")
        eventually(lambda: len(seen) == 4)
    assert judged("05", sink_3nack=seen) == []
    person.run("kubectl delete all -n conformance -l case=channel-retry-linear")


@pytest.mark.assertion("et-delivery-06")
def test_10_broker_dls(person: Person) -> None:
    person.run(f"kubectl create -f {FILES}/10-00-broker-dls.yaml")
    sinks = ("Pod/sink-3nack ready: True", "Pod/sink-ack ready: True")
    person.ready("triggers", "Trigger/broker-dls ready: True", *sinks)
    with person.watching("sink-3nack") as first, person.watching("sink-ack") as second:
        person.run(f"kubectl create -f {FILES}/10-01-broker-dls.yaml")
        eventually(lambda: len(first) == len(second) == 1)
    assert judged("10", sink_3nack=first, sink_ack=second) == []
    person.run("kubectl delete all -n conformance -l case=broker-dls")


@pytest.mark.assertion("et-delivery-03")
def test_12_broker_reply(person: Person) -> None:
    person.run(f"kubectl create -f {FILES}/12-00-broker-reply.yaml")
    triggers = ("Trigger/sink-ack ready: True", "Trigger/sink-ack-reply ready: True")
    person.ready("triggers", *triggers, "Pod/sink-ack-reply ready: True", "Pod/sink-ack ready: True")
    with person.watching("sink-ack-reply") as first, person.watching("sink-ack") as second:
        person.run(f"kubectl create -f {FILES}/12-01-broker-reply.yaml")
        eventually(lambda: len(first) == len(second) == 1)
    assert judged("12", sink_ack_reply=first, sink_ack=second) == []
    replier = "kubectl logs -n conformance -l component=sink-ack-reply"
    eventually(lambda: "replying with the event 1" in person.run(replier))
    person.run("kubectl delete all -n conformance -l case=broker-reply")
