"""The embedded Kafka: topics in the shape of the contract, and events that outlive a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    ConfigResource,
    ResourceType,
)

from penstock.contract import topics as contract
from penstock.engine.jars import Jars
from penstock.engine.problem import Problem
from penstock.engine.topics import setup as topics
from penstock.log import clients
from penstock.settings import Settings
from running import held_ports, running_kafka, with_held_ports


def test_topics_have_the_shape_of_the_contract(kafka: Settings) -> None:
    client = clients.admin(kafka)
    found = client.list_topics(timeout=60).topics
    for topic in contract.TOPICS:
        assert len(found[topic.name].partitions) == (kafka.partitions if topic.per_partition else 1)
    [config] = client.describe_configs([ConfigResource(ResourceType.TOPIC, contract.EVENTS)]).values()
    values = {name: entry.value for name, entry in config.result(60).items()}
    assert values["flush.messages"] == "1"
    assert values["cleanup.policy"] == "delete"
    assert int(values["max.message.bytes"]) > kafka.max_event_bytes


def test_ensuring_topics_again_changes_nothing(kafka: Settings) -> None:
    before = _shape(kafka)
    topics.ensure(kafka)
    assert _shape(kafka) == before


def _shape(settings: Settings) -> dict[str, tuple[int, dict[str, str]]]:
    """Partitions and configuration of every topic."""
    client = clients.admin(settings)
    found = client.list_topics(timeout=60).topics
    names = [topic.name for topic in contract.TOPICS]
    configs = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    values = {resource.name: future.result(60) for resource, future in configs.items()}
    return {
        name: (len(found[name].partitions), {key: entry.value for key, entry in values[name].items()}) for name in names
    }


def test_another_number_of_partitions_is_refused(kafka: Settings) -> None:
    other = kafka.model_copy(update={"partitions": kafka.partitions + 1})
    with pytest.raises(Problem, match=rf"has {kafka.partitions} partitions .* ask for {kafka.partitions + 1}"):
        topics.ensure(other)


def test_an_address_without_kafka_is_named() -> None:
    [port] = held_ports(1)
    with pytest.raises(Problem, match=f"127.0.0.1:{port} does not answer"):
        topics.ensure(Settings(kafka=f"127.0.0.1:{port}"))


def test_an_event_of_the_largest_size_passes(kafka: Settings) -> None:
    largest = kafka.max_event_bytes + 64 * 1024
    offset = _send(kafka, b"x" * largest)
    assert len(_read(kafka, offset)) == largest


def test_events_outlive_a_restart_on_other_ports(tmp_path: Path, jar_folders: Jars) -> None:
    first = with_held_ports(Settings(data_dir=tmp_path))
    with running_kafka(first, jar_folders):
        offset = _send(first, b"kept")
    second = with_held_ports(Settings(data_dir=tmp_path))
    assert second.kafka_port != first.kafka_port
    with running_kafka(second, jar_folders):
        assert _read(second, offset) == b"kept"


def test_acknowledged_events_outlive_a_kill(tmp_path: Path, jar_folders: Jars) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path))
    with running_kafka(settings, jar_folders) as process:
        offset = _send(settings, b"acknowledged")
        process.kill()
        process.wait()
    with running_kafka(settings, jar_folders):
        assert _read(settings, offset) == b"acknowledged"


def _send(settings: Settings, value: bytes) -> int:
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap, "acks": "all", "message.max.bytes": settings.max_record_bytes}
    )
    offsets: list[int] = []
    failures: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is None:
            offsets.append(message.offset())  # type: ignore[attr-defined]
        else:
            failures.append(error)

    producer.produce(contract.EVENTS, value=value, partition=0, on_delivery=delivered)
    producer.flush(60)
    assert not failures
    return offsets[0]


def _read(settings: Settings, offset: int) -> bytes:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": settings.max_record_bytes,
        }
    )
    try:
        consumer.assign([TopicPartition(contract.EVENTS, 0, offset)])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()
