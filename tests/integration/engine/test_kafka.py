"""The embedded Kafka: topics in the shape of the contract, and events that outlive a restart."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    ConfigResource,
    ResourceType,
)

from penstock.contract import topics as contract
from penstock.engine import embedded_kafka, java
from penstock.engine.jars.jar_cache import Jars
from penstock.engine.topics import topic_setup
from penstock.kafka import clients
from penstock.kafka.clients import embedded_password_file
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from tests.running import held_ports, kafka_access, running_kafka, with_held_ports


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
    topic_setup.ensure(kafka)
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
    with pytest.raises(UserError, match=rf"has {kafka.partitions} partitions .* ask for {kafka.partitions + 1}"):
        topic_setup.ensure(other)


def test_an_address_without_kafka_is_named() -> None:
    [port] = held_ports(1)
    with pytest.raises(UserError, match=f"127.0.0.1:{port} is unreachable"):
        topic_setup.ensure(Settings(kafka=f"127.0.0.1:{port}"))


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


def test_storage_that_has_no_password_yet_gets_one_and_keeps_its_events(tmp_path: Path, jar_folders: Jars) -> None:
    """As a version of penstock left it whose Kafka asked for nothing."""
    settings = with_held_ports(Settings(data_dir=tmp_path))
    _format_without_password(settings, jar_folders)
    with running_kafka(settings, jar_folders):
        offset = _send(settings, b"kept")
    assert MECHANISMS + "SCRAM-SHA-512,PLAIN" in _server_properties(settings), "the secret of that start counted"
    with running_kafka(settings, jar_folders):
        assert _read(settings, offset) == b"kept"
    assert MECHANISMS + "SCRAM-SHA-512" in _server_properties(settings)


def test_a_password_that_is_lost_is_made_again(tmp_path: Path, jar_folders: Jars) -> None:
    settings = with_held_ports(Settings(data_dir=tmp_path))
    with running_kafka(settings, jar_folders):
        before = embedded_password_file(settings).read_text()
    embedded_password_file(settings).unlink()
    with running_kafka(settings, jar_folders):
        assert embedded_password_file(settings).read_text() != before


def test_the_password_is_on_no_command_line_while_storage_is_prepared(
    tmp_path: Path, jar_folders: Jars, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    run = subprocess.run

    def noting(command: list[str], **options: Any) -> Any:
        ran.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noting)
    settings = with_held_ports(Settings(data_dir=tmp_path))
    command = embedded_kafka.prepare(settings, jar_folders, java.find_java())
    password = embedded_password_file(settings).read_text()
    assert (settings.data_dir / "kafka" / "log" / "meta.properties").exists()
    assert not [word for words in (*ran, command) for word in words if password in word]
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    names = {"kafka-password", "kafka-client.conf", "kafka-client.properties", "server.properties"}
    assert {path.name for path in holding} == names
    assert {oct(path.stat().st_mode & 0o777) for path in holding} == {"0o600"}


MECHANISMS = "listener.name.clients.sasl.enabled.mechanisms="


def _server_properties(settings: Settings) -> list[str]:
    return (settings.data_dir / "kafka" / "server.properties").read_text().splitlines()


def _format_without_password(settings: Settings, jar_folders: Jars) -> None:
    config = settings.data_dir / "plain.properties"
    lines = ["process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER"]
    lines += ["controller.quorum.voters=1@127.0.0.1:1", "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1"]
    lines += [f"log.dirs={settings.data_dir / 'kafka' / 'log'}"]
    config.write_text("\n".join(lines))
    command = [str(java.find_java().program), "-cp", jar_folders.kafka_classpath, "kafka.tools.StorageTool", "format"]
    subprocess.run([*command, "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(config)], check=True, timeout=120)


def _send(settings: Settings, value: bytes) -> int:
    producer = Producer({**kafka_access(settings), "acks": "all", "message.max.bytes": settings.max_record_bytes})
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
            **kafka_access(settings),
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
