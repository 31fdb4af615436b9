"""SIGKILL of each part of the stack, and of the whole, under load: no event that was answered with 202 is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from producer import Producer, Subscriber

from running import Stack, eventually, start_stack, stop_process

ROUTE = """
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {{name: faults}}
---
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: faults}}
spec:
  broker: faults
  subscriber: {{uri: "{url}"}}
"""

UNDER_LOAD_SECONDS = 3
RECOVERY_SECONDS = 90


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    running = Subscriber()
    yield running
    running.close()


def component(stack: Stack, name: str) -> psutil.Process:
    return psutil.Process(stack.record["components"][name]["pid"])


def spark_jvm(stack: Stack) -> psutil.Process:
    return next(p for p in component(stack, "pipeline").children(recursive=True) if p.name() == "java")


def dispatcher_worker(stack: Stack) -> psutil.Process:
    """The Python worker that delivers: a child of Spark's daemon."""
    daemons = [p for p in spark_jvm(stack).children(recursive=True) if p.children()]
    return daemons[-1].children()[0]


KILLS: dict[str, Callable[[Stack], psutil.Process]] = {
    "ingress": lambda stack: component(stack, "ingress"),
    "dispatcher worker": dispatcher_worker,
    "router JVM": spark_jvm,
    "kafka": lambda stack: component(stack, "kafka"),
}


def test_nothing_accepted_is_lost_whatever_is_killed(tmp_path: Path, subscriber: Subscriber) -> None:
    stack = start_stack(tmp_path / "data")
    try:
        stack.apply(ROUTE.format(url=subscriber.url))
        stack.kubectl("wait", "--for=condition=Ready", "trigger/faults", "--timeout=60s", timeout=70)
        lines = [f"{name}: {under_fire(stack, subscriber, kill)}" for name, kill in KILLS.items()]
        lines.append(f"the whole stack: {killed_whole(stack, subscriber)}")
        print("\n".join(lines))
    finally:
        stop_process(stack.process)


def under_fire(stack: Stack, subscriber: Subscriber, victim: Callable[[Stack], psutil.Process]) -> str:
    """Kills one process under load; every accepted event must arrive, and the stack must accept again."""
    subscriber.received.clear()
    producer = Producer(f"{stack.settings.ingress_url}/default/faults")
    time.sleep(UNDER_LOAD_SECONDS)
    before = len(producer.accepted)
    assert before > 50, f"hardly anything was accepted before the kill: {producer.refused}"
    victim(stack).kill()
    try:
        eventually(lambda: len(producer.accepted) > before + 100, RECOVERY_SECONDS)
    finally:
        producer.stop()
    return settle(producer, subscriber)


def killed_whole(stack: Stack, subscriber: Subscriber) -> str:
    """Kills the supervisor, and with it everything, under load; a new stack on the same data delivers the rest."""
    subscriber.received.clear()
    producer = Producer(f"{stack.settings.ingress_url}/default/faults")
    time.sleep(UNDER_LOAD_SECONDS)
    psutil.Process(stack.record["pid"]).kill()
    stack.process.wait(10)
    producer.stop()
    again = start_stack(stack.settings.data_dir)
    try:
        return settle(producer, subscriber)
    finally:
        stop_process(again.process)


def settle(producer: Producer, subscriber: Subscriber) -> str:
    def missing() -> set[str]:
        return producer.accepted - subscriber.received.keys()

    eventually(lambda: not missing(), RECOVERY_SECONDS)
    twice = sum(count - 1 for ident, count in subscriber.received.items() if ident in producer.accepted)
    refused = dict(producer.refused)
    return f"{len(producer.accepted)} accepted, all arrived, {twice} came again; refused meanwhile: {refused}"
