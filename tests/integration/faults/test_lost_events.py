"""Events that are gone before a new Trigger could get them: the Trigger says so, and no longer than it should."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.contract import topics
from penstock.kafka.table import SnapshotFollower
from tests.integration.faults.ground import TRIGGER, WARNING_SECONDS, Ground, process
from tests.integration.faults.producer import Producer, Subscriber
from tests.running import Stack, kafka_access
from tests.waiting import eventually

pytestmark = pytest.mark.long


def test_a_trigger_tells_of_events_that_were_gone_before_it_got_them(
    ground: Ground, request: pytest.FixtureRequest
) -> None:
    stack, own = ground.stack, Subscriber()
    request.addfinalizer(own.close)
    with router_held(stack):
        stack.apply(TRIGGER.format(name="late", url=own.url))
        starts = published_start(stack)
        deliver_some(ground)
        kept = remove_all_events(stack)
    lost = {n: (start, first - 1) for n, (start, first) in enumerate(zip(starts, kept, strict=True)) if start < first}
    assert lost, "the test must remove something that the Trigger was still to get"
    ranges = "; ".join(f"partition {n}, offsets {first} to {last}" for n, (first, last) in lost.items())
    warning = eventually(lambda: warning_of(stack, ranges))
    assert (warning["status"], warning["severity"], warning["reason"]) == ("False", "Warning", "EventsLost")
    assert any(ranges in told["message"] for told in eventually(lambda: events_about(stack)))
    counted = sum(last - first + 1 for first, last in lost.values())
    eventually(lambda: lost_by_metric(stack) == counted)
    stack.kubectl("wait", "--for=condition=Ready", "trigger/late", "--timeout=150s", timeout=170)
    eventually(lambda: not warning_of(stack), WARNING_SECONDS + 120)
    stack.kubectl("delete", "trigger", "late")


@contextlib.contextmanager
def router_held(stack: Stack) -> Iterator[None]:
    """The router's driver learns of no new routes meanwhile; its query and the dispatcher run on in their processes."""
    driver = process(stack, "pipeline")
    driver.suspend()
    try:
        yield
    finally:
        driver.resume()


def published_start(stack: Stack) -> tuple[int, ...]:
    """From where on the Trigger counts, as the data plane is told."""
    follower = SnapshotFollower(stack.settings, lambda _: None, lambda error: pytest.fail(repr(error)))
    follower.start()
    try:
        found: tuple[int, ...] = eventually(
            lambda: next((r.start for r in follower.snapshot.routes.values() if r.name == "late"), None)
        )
        return found
    finally:
        follower.stop()


def deliver_some(ground: Ground) -> None:
    """Accepts events and sees them through, so that nobody else misses them when they are gone."""
    producer = Producer(ground.url)
    producer.wait_for(50)
    producer.stop()
    ground.settle(producer)


def remove_all_events(stack: Stack) -> list[int]:
    """What retention would do, at once; returns the first offset that is kept of each partition."""
    admin = AdminClient(kafka_access(stack.settings))
    places = [TopicPartition(topics.EVENTS, number, OFFSET_END) for number in range(stack.settings.partitions)]
    removed = admin.delete_records(places)
    return [removed[place].result(60).low_watermark for place in places]


def warning_of(stack: Stack, text: str = "") -> dict[str, Any] | None:
    trigger = json.loads(stack.kubectl("get", "trigger", "late", "-o", "json"))
    conditions: list[dict[str, Any]] = trigger["status"]["conditions"]
    return next((c for c in conditions if c["type"] == "EventsRetained" and text in c["message"]), None)


def events_about(stack: Stack) -> list[dict[str, Any]]:
    """The Kubernetes Events that warn of the loss."""
    items = json.loads(stack.kubectl("get", "events", "-o", "json"))["items"]
    return [
        e for e in items if (e["type"], e["reason"], e["involvedObject"]["name"]) == ("Warning", "EventsLost", "late")
    ]


def lost_by_metric(stack: Stack) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.settings.metrics_port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    lines = re.findall(r"penstock_events_lost_total\{([^}]*)\} (\S+)", text)
    return sum(float(value) for labels, value in lines if 'name="late"' in labels)
