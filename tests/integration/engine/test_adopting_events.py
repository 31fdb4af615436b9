"""`penstock topics --adopt-events` on the data folder of a stack that does not run: its Kafka is started for that."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from penstock.contract import topics
from penstock.contract.routes import Route, Version, encode, key_of
from penstock.engine import datadir
from penstock.kafka.routes import RoutesTopic
from penstock.kafka.transactions import load_partition
from penstock.settings import Settings
from tests.running import kafka_access, running_kafka, with_held_ports

if TYPE_CHECKING:
    from penstock.engine.jars.jar_cache import Jars

ROUTE = Route("r", "Trigger", "n", "r", "t", start=(5_000, 5_000))


@pytest.mark.timeout(300)
def test_routes_of_a_stopped_stack_begin_with_the_oldest_event_and_nothing_refers_to_the_former_log(
    tmp_path: Path, jar_folders: Jars
) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path, partitions=2))
    with running_kafka(settings, jar_folders):
        routes = RoutesTopic(settings)
        version = routes.read().version + 1
        routes.write([(key_of(ROUTE), encode(ROUTE))], encode(Version(version, routes=1)))
        producer = Producer(kafka_access(settings))
        for topic in (topics.CURSORS, topics.ATTEMPTS, topics.MATCHED, topics.REPORTS):
            producer.produce(topic, partition=0, key="old", value=b"{}")
        producer.flush(30)
    data = datadir.DataDir(tmp_path)
    data.open(settings)
    data.write_settings(settings)
    data.close()

    command = [sys.executable, "-m", "penstock.cli", "topics", "--adopt-events", "--json", "--data-dir", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    done = json.loads(ran.stdout)["done"]
    assert done == [
        "1 routes begin with the oldest event",
        *(f"made penstock.{name} again, empty" for name in ("cursors", "attempts", "matched", "reports")),
    ]
    assert not datadir.runs(tmp_path)
    with running_kafka(settings, jar_folders):
        routes = RoutesTopic(settings)
        stored = routes.read()
        routes.close()
        assert [record.start for record in stored.records.values() if isinstance(record, Route)] == [()]
        for topic in (topics.CURSORS, topics.ATTEMPTS, topics.MATCHED, topics.REPORTS):
            assert "old" not in load_partition(settings, "test", topic, 0, threading.Event())
