"""`penstock topics` on a Kafka of three brokers: replicas, differences, more partitions, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.contract import reports, topics
from penstock.contract.reports import Ack
from penstock.contract.routes import Route, Target, Version, encode, key_of
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.topics import topic_setup
from penstock.kafka.admin import TopicAdmin
from penstock.kafka.clients import topic_name
from penstock.settings import Settings
from tests.waiting import eventually
from tools.cluster.kafka import KafkaCluster, running_cluster

pytestmark = pytest.mark.long

PREFIX = "wide"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, jar_folders: Jars) -> Iterator[KafkaCluster]:
    """Three brokers, of which two run."""
    with running_cluster(tmp_path_factory.mktemp("three"), jar_folders, brokers=3, started=2) as started:
        yield started


def ask(cluster: KafkaCluster, folder: Path, *flags: str, prefix: str = PREFIX) -> tuple[int, dict[str, Any], str]:
    """Exit code, what it prints for programs, and what it says to people where it refuses."""
    command = [sys.executable, "-m", "penstock.cli", "topics", "--kafka", cluster.plain, "--json"]
    command += ["--set", f"topic_prefix={prefix}", "--set", "retention_mib=512", *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=folder)
    return ran.returncode, json.loads(ran.stdout or "{}"), " ".join(ran.stderr.split())


@pytest.mark.timeout(600)
def test_topics_from_the_first_to_the_last_partition(cluster: KafkaCluster, tmp_path: Path) -> None:
    code, _, said = ask(cluster, tmp_path, "--create")
    assert code == 1
    assert "Topics need 3 replicas" in said
    assert "only 2 brokers are reachable" in said

    cluster.start(cluster.brokers[2])
    cluster.wait(3)
    code, found, _ = ask(cluster, tmp_path)
    assert code == 3
    assert {(one["what"], one["found"]) for one in found["differences"]} == {("topic", "missing")}

    code, found, _ = ask(cluster, tmp_path, "--create")
    assert (code, found["differences"]) == (0, [])
    shapes = {row["name"]: (row["partitions"], row["replicas"], row["min_insync"]) for row in found["topics"]}
    assert shapes["wide.events"] == (4, 3, "2")
    assert shapes["wide.routes"] == (1, 3, "2")
    assert len(found["done"]) == len(topics.TOPICS) == len(shapes)

    code, found, _ = ask(cluster, tmp_path, "--set", "retention_hours=1")
    assert code == 3
    assert {one["what"] for one in found["differences"]} >= {"retention.ms"}
    code, found, _ = ask(cluster, tmp_path, "--set", "retention_hours=1", "--configure")
    assert (code, found["differences"]) == (0, [])

    grow_without_and_with_an_order(cluster, tmp_path)
    start_with_one_broker_away(cluster)


@contextlib.contextmanager
def heartbeats(producer: Producer, topic: str) -> Iterator[None]:
    """An ingress that is at work meanwhile."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.2):
            ack = Ack("ingress", "ingress-7", 1, time.time())
            producer.produce(topic, key=reports.key_of(ack), value=reports.encode(ack))
            producer.poll(0)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


def grow_without_and_with_an_order(cluster: KafkaCluster, folder: Path) -> None:
    code, found, said = ask(cluster, folder, "--set", "retention_hours=1", "--partitions", "6")
    assert code in (0, 3), said
    assert {row["partitions"] for row in found["topics"]} == {6, 1}
    assert ask(cluster, folder, "--partitions", "5")[0] == 2

    settings = Settings(kafka=cluster.plain, topic_prefix=PREFIX)
    producer = Producer({"bootstrap.servers": cluster.plain})
    route = Route("uid", "Trigger", "ns", "in-order", "target", ordering="key")
    for record in (Target("target", "Broker", "ns", "b"), route, Version(1, 1, 1)):
        producer.produce(topic_name(settings, topics.ROUTES), key=key_of(record), value=encode(record))
    producer.produce(topic_name(settings, topics.EVENTS), value=b"an event", partition=0)
    assert producer.flush(30) == 0
    with heartbeats(producer, topic_name(settings, topics.REPORTS)):
        code, _, said = ask(cluster, folder, "--partitions", "8")
    assert code == 1
    assert "the ingress ingress-7 is running" in said
    assert "1 events may not be routed yet" in said

    producer.produce(topic_name(settings, topics.ROUTES), key=key_of(route), value=None)
    producer.produce(topic_name(settings, topics.ROUTES), key="version", value=encode(Version(2, 1, 0)))
    assert producer.flush(30) == 0
    _, found, _ = ask(cluster, folder, "--partitions", "8")
    assert {row["partitions"] for row in found["topics"]} == {8, 1}


def start_with_one_broker_away(cluster: KafkaCluster) -> None:
    """Topics that are there are enough for a start; new ones, of another installation, are not made meanwhile."""
    cluster.brokers[2].kill()
    wide = Settings(kafka=cluster.plain, topic_prefix=PREFIX, partitions=8, retention_mib=512)
    eventually(lambda: TopicAdmin(wide).brokers(10) == 2, 180)  # it is named for a while after its end
    topic_setup.ensure(wide)
    assert topic_setup.with_actual_partitions(wide.model_copy(update={"partitions": 4})).partitions == 8
    narrow = wide.model_copy(update={"partitions": 16})
    with pytest.raises(Exception, match="penstock topics --partitions 16"):
        topic_setup.ensure(narrow)
    other = wide.model_copy(update={"topic_prefix": "other"})
    with pytest.raises(Exception, match="Topics need 3 replicas"):
        topic_setup.ensure(other)
