"""Kafka is away for half a minute under load: producers are told so, and nothing that was accepted is lost."""

from __future__ import annotations

import time

import pytest

from tests.integration.faults.ground import RECOVERY_SECONDS, Ground, process
from tests.integration.faults.producer import Producer
from tests.waiting import eventually

pytestmark = pytest.mark.long

AWAY_SECONDS = 30
UNDER_LOAD_EVENTS = 100


def test_producers_see_503_while_kafka_is_away_and_nothing_accepted_is_lost(ground: Ground) -> None:
    """Kafka is killed, and the one that the supervisor starts in its place is held before it listens."""
    producer = Producer(ground.url)
    try:
        eventually(lambda: len(producer.accepted) > UNDER_LOAD_EVENTS, RECOVERY_SECONDS)
        kafka = process(ground.stack, "kafka")
        kafka.kill()
        gone = time.monotonic()
        following = process(ground.stack, "kafka", but=kafka.pid)
        following.suspend()
        try:
            producer.wait_for_answers()  # also to what Kafka confirmed before it was gone
            accepted = len(producer.accepted)
            time.sleep(max(0.0, gone + AWAY_SECONDS - time.monotonic()))
            assert len(producer.accepted) == accepted, "nothing can have been durable while Kafka was away"
        finally:
            following.resume()
        away = time.monotonic() - gone
        eventually(lambda: len(producer.accepted) > accepted + 100, RECOVERY_SECONDS)
        back = time.monotonic() - gone - away
    finally:
        producer.stop()
    assert producer.refused["503"] >= 10
    assert set(producer.refused) == {"503"}, "the ingress was there all the time"
    assert producer.without_retry_after == 0
    report = ground.settle(producer)
    print(f"Kafka away for {away:.0f} s, accepting {back:.1f} s after its return: {report}")


def test_a_kafka_that_hangs_loses_nothing(ground: Ground) -> None:
    """Its process is stopped and goes on later: connections stay open, nothing is answered."""
    producer = Producer(ground.url)
    try:
        eventually(lambda: len(producer.accepted) > UNDER_LOAD_EVENTS, RECOVERY_SECONDS)
        kafka = process(ground.stack, "kafka")
        kafka.suspend()
        hung = time.monotonic()
        try:
            producer.wait_for_answers()  # also to what Kafka confirmed before it hung
            accepted = len(producer.accepted)
            time.sleep(max(0.0, hung + AWAY_SECONDS - time.monotonic()))
            assert len(producer.accepted) == accepted, "nothing can have been durable while Kafka was away"
        finally:
            kafka.resume()
        resumed = time.monotonic()
        eventually(lambda: len(producer.accepted) > accepted + 100, RECOVERY_SECONDS)
        back = time.monotonic() - resumed
    finally:
        producer.stop()
    assert process(ground.stack, "kafka").pid == kafka.pid, "it was not replaced"
    assert producer.without_retry_after == 0
    report = ground.settle(producer)
    print(f"Kafka hung for {AWAY_SECONDS} s, accepting {back:.1f} s after it went on: {report}")
