"""Kafka clients that lose sight of every broker: noticed by librdkafka's own statistics, and made up for."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from penstock.contract import topics
from penstock.kafka.table import TableFollower
from penstock.kafka.watchdog import EXIT_CODE, LOOKS, Watchdog
from penstock.settings import Settings
from tests.integration.kafka.nameless_kafka import NamelessKafka
from tests.running import kafka_access
from tests.waiting import eventually

EVERY = 0.1
BLIND = '{"name": "rdkafka#consumer-1", "brokers": {"GroupCoordinator": {"source": "logical"}}}'

LOST_CLIENT = """
import sys
from confluent_kafka import Producer
from penstock.kafka.watchdog import ending_process
config = {"bootstrap.servers": sys.argv[1], "metadata.recovery.strategy": "none"}
producer = Producer(ending_process().of({**config, "topic.metadata.refresh.interval.ms": 50}, every=0.1))
producer.list_topics("t", 60)
print("knows a broker", flush=True)
while True:
    producer.poll(0.05)
"""


@pytest.fixture
def nameless() -> Iterator[NamelessKafka]:
    with NamelessKafka() as server:
        yield server
        server.shutdown()


def client(nameless: NamelessKafka, watchdog: Watchdog) -> Consumer:
    config = {
        "bootstrap.servers": nameless.bootstrap,
        "group.id": "watchdog",
        "log_level": 0,
        "error_cb": lambda error: None,
        # Without this it comes back by itself, sometimes: that is a race inside the library.
        "metadata.recovery.strategy": "none",
    }
    found = Consumer(watchdog.of(config, EVERY))
    assert len(found.list_topics("t", 60).brokers) == 1
    return found


def test_a_client_that_was_told_of_no_broker_is_lost(nameless: NamelessKafka) -> None:
    told: list[str] = []
    watchdog = Watchdog(told.append)
    consumer = client(nameless, watchdog)
    try:
        eventually(lambda: consumer.poll(EVERY) is None and consumer.list_topics("t", 60).brokers)
        assert not watchdog.gone
        nameless.names_itself = False
        assert len(consumer.list_topics("t", 60).brokers) == 0
        nameless.names_itself = True
        eventually(lambda: consumer.poll(EVERY) is None and watchdog.gone)
        assert len(told) == 1
    finally:
        consumer.close()


def test_a_client_whose_kafka_is_away_is_not_lost(nameless: NamelessKafka) -> None:
    watchdog = Watchdog()
    consumer = client(nameless, watchdog)
    try:
        nameless.shutdown()
        nameless.server_close()
        until = time.monotonic() + EVERY * LOOKS * 5
        while time.monotonic() < until:
            consumer.poll(EVERY)
        assert not watchdog.gone
    finally:
        consumer.close()


def test_a_process_whose_client_is_lost_ends_and_says_why(nameless: NamelessKafka) -> None:
    command = [sys.executable, "-c", LOST_CLIENT, nameless.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "knows a broker\n"
        nameless.names_itself = False
        said, _ = process.communicate(timeout=60)
        assert process.returncode == EXIT_CODE
        assert "knows no broker any more" in said


def test_a_follower_whose_client_is_lost_goes_on_where_it_was(kafka: Settings) -> None:
    seen: list[str] = []
    failures: list[BaseException] = []
    reached = threading.Event()
    producer = Producer(kafka_access(kafka))
    follower = TableFollower(kafka, topics.REPORTS, lambda key, value: seen.append(key), reached.set, failures.append)
    follower.start()
    try:
        assert reached.wait(60)
        before = len(seen)
        for key in ("watchdog/1", "watchdog/2"):
            producer.produce(topics.REPORTS, key=key, value=b"{}")
        producer.flush(10)
        eventually(lambda: seen[before:] == ["watchdog/1", "watchdog/2"])
        lost = follower._watchdog
        for _ in range(LOOKS):
            lost.look(BLIND)
        eventually(lambda: follower._watchdog is not lost)
        producer.produce(topics.REPORTS, key="watchdog/3", value=b"{}")
        producer.flush(10)
        eventually(lambda: len(seen) > before + 2)
        assert seen[before:] == ["watchdog/1", "watchdog/2", "watchdog/3"]
    finally:
        follower.stop()
