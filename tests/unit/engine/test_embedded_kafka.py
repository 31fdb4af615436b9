"""Every listener of the embedded Kafka asks for credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine import embedded_kafka
from penstock.settings import Settings

MECHANISMS = "listener.name.clients.sasl.enabled.mechanisms"


def test_no_listener_takes_a_client_without_credentials() -> None:
    found = embedded_kafka.properties(Settings(), 7001, "hidden")
    names = [one.partition(":")[0] for one in found["listeners"].split(",")]
    protocols = dict(one.split(":") for one in found["listener.security.protocol.map"].split(","))
    assert protocols == dict.fromkeys(names, "SASL_PLAINTEXT")
    assert all(found[f"listener.name.{name.lower()}.sasl.enabled.mechanisms"] for name in names)
    assert all("127.0.0.1" in one for one in found["listeners"].split(","))


def test_clients_log_in_by_scram_alone_and_the_server_by_the_same_password() -> None:
    found = embedded_kafka.properties(Settings(), 7001, "hidden")
    assert found[MECHANISMS] == "SCRAM-SHA-512"
    assert 'username="penstock" password="hidden"' in found["listener.name.clients.scram-sha-512.sasl.jaas.config"]
    assert "hidden" not in found["listener.name.controller.plain.sasl.jaas.config"]


def test_the_secret_of_the_controller_is_another_one_at_each_start() -> None:
    name = "listener.name.controller.plain.sasl.jaas.config"
    first, second = (embedded_kafka.properties(Settings(), 7001, "hidden")[name] for _ in range(2))
    assert first != second


def test_storage_without_the_password_takes_the_secret_of_its_start_as_well() -> None:
    found = embedded_kafka.properties(Settings(), 7001, "hidden", "once")
    assert found[MECHANISMS] == "SCRAM-SHA-512,PLAIN"
    assert found["listener.name.clients.plain.sasl.jaas.config"].endswith(' required user_upgrade="once";')


@pytest.mark.parametrize("in_order", [True, False])
def test_notes_of_transactions_are_removed_unless_kafka_was_stopped_in_order(tmp_path: Path, in_order: bool) -> None:
    settings = Settings(data_dir=tmp_path)
    embedded_kafka.forget_transactions(settings)  # of a folder in which no Kafka has run yet
    logs = settings.embedded_kafka_dir / "log"
    notes, events = logs / "__transaction_state-0", logs / "penstock.events-0"
    for partition in (notes, events):
        partition.mkdir(parents=True)
        (partition / "00000000000000000000.log").touch()
    if in_order:
        (logs / embedded_kafka.CLEAN_SHUTDOWN).touch()
    embedded_kafka.forget_transactions(settings)
    assert (notes.exists(), events.exists()) == (in_order, True)
