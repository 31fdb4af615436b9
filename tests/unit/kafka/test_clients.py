"""One `kafka_conf` for librdkafka and for Java: the same meaning in the names and shapes of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import ValidationError

from penstock.kafka import clients
from penstock.kafka.clients import (
    UnusableConf,
    embedded_password_file,
    jaas,
    java_options,
    librdkafka_options,
    portable,
    spark_options,
    spark_producer_options,
)
from penstock.settings import Settings


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "password").write_text("hid den\n")
    monkeypatch.setenv("KAFKA_USER", "penstock")
    return Settings(
        kafka="k:9092",
        kafka_conf={
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "scram-sha-512",
            "sasl.username": {"env": "KAFKA_USER"},
            "sasl.password": {"file": str(tmp_path / "password")},
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.endpoint.identification.algorithm": "none",
            "socket.timeout.ms": 20000,
            "librdkafka.broker.address.family": "v4",
            "java.ssl.enabled.protocols": "TLSv1.3",
        },
    )


def test_librdkafka_gets_its_own_names_and_what_files_and_variables_hold(secured: Settings) -> None:
    assert librdkafka_options(secured) == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "penstock",
        "sasl.password": "hid den",
        "ssl.ca.pem": "-----BEGIN CERTIFICATE-----\n",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.timeout.ms": 20000,
        "broker.address.family": "v4",
    }


def test_java_gets_the_same_in_its_words(secured: Settings) -> None:
    assert java_options(secured) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="penstock" password="hid den";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\n",
        "ssl.endpoint.identification.algorithm": "",
        "request.timeout.ms": "20000",
        "ssl.enabled.protocols": "TLSv1.3",
    }


def test_sparks_producer_never_gives_up_a_batch_while_it_writes_later_ones(secured: Settings) -> None:
    """Routing goes on after the newest record of a partition, so a gap before it would never be filled."""
    options = spark_producer_options(secured)
    assert options == spark_options(secured) | {
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.max.in.flight.requests.per.connection": "1",
        "kafka.retries": "2147483647",
        "kafka.delivery.timeout.ms": "2147483647",
        "kafka.max.block.ms": "2147483647",
        "kafka.buffer.memory": "33554432",
    }


def test_the_largest_event_with_the_most_routes_fits_into_sparks_producer() -> None:
    largest = Settings(kafka="k:9092", max_event_bytes=30 * 1024 * 1024)
    assert largest.max_matched_bytes <= int(spark_producer_options(largest)["kafka.buffer.memory"])
    with pytest.raises(ValidationError, match="less than or equal to 31457280"):
        Settings(max_event_bytes=30 * 1024 * 1024 + 1)


def test_settings_that_travel_need_no_file_and_no_variable(
    secured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = portable(secured)
    for left in tmp_path.iterdir():
        left.unlink()
    monkeypatch.delenv("KAFKA_USER")
    arrived = Settings(**there.model_dump(mode="json"))
    assert librdkafka_options(arrived)["sasl.password"] == "hid den"
    assert java_options(arrived)["ssl.truststore.certificates"] == "-----BEGIN CERTIFICATE-----\n"


def test_a_password_is_quoted_as_java_reads_it() -> None:
    assert jaas("PLAIN", "u", 'a"b\\c;').endswith('password="a\\"b\\\\c;";')
    with pytest.raises(UnusableConf, match="control characters"):
        jaas("PLAIN", "u", "two\nlines")


def test_a_private_key_becomes_one_that_java_reads(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    old = serialization.PrivateFormat.TraditionalOpenSSL
    locked = key.private_bytes(serialization.Encoding.PEM, old, serialization.BestAvailableEncryption(b"open"))
    (tmp_path / "key.pem").write_bytes(locked)
    conf = {"security.protocol": "ssl", "ssl.certificate.pem": "chain", "ssl.key.location": str(tmp_path / "key.pem")}
    options = java_options(Settings(kafka="k:9092", kafka_conf=conf | {"ssl.key.password": "open"}))
    assert options["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert options["ssl.keystore.certificate.chain"] == "chain"
    with pytest.raises(UnusableConf, match=r"ssl\.key\.password does not open it"):
        java_options(Settings(kafka="k:9092", kafka_conf=conf | {"ssl.key.password": "wrong"}))


def test_what_is_not_there_is_named_with_its_property(tmp_path: Path) -> None:
    sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "u"}
    with pytest.raises(UnusableConf, match=r"sasl\.password in kafka_conf names .*nowhere, which cannot be read: No"):
        librdkafka_options(
            Settings(kafka="k:9092", kafka_conf={**sasl, "sasl.password": {"file": str(tmp_path / "nowhere")}})
        )
    with pytest.raises(UnusableConf, match="the variable NO_SUCH_VARIABLE, which is not set"):
        librdkafka_options(Settings(kafka="k:9092", kafka_conf={**sasl, "sasl.password": {"env": "NO_SUCH_VARIABLE"}}))


def test_clients_of_the_embedded_kafka_have_its_password_whatever_kafka_conf_says(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, kafka_conf={"client.rack": "a"})
    with pytest.raises(UnusableConf, match=r"the embedded Kafka asks for the password in .*: No such"):
        librdkafka_options(settings)
    embedded_password_file(settings).parent.mkdir()
    embedded_password_file(settings).write_text("hidden")
    assert librdkafka_options(settings) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "penstock",
        "sasl.password": "hidden",
        "client.rack": "a",
    }
    assert spark_options(settings)["kafka.sasl.jaas.config"].endswith('username="penstock" password="hidden";')


def test_settings_that_travel_have_the_password_of_the_embedded_kafka(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, kafka_port=7001)
    embedded_password_file(settings).parent.mkdir()
    embedded_password_file(settings).write_text("hidden")
    arrived = Settings(**portable(settings).model_dump(mode="json"))
    embedded_password_file(settings).unlink()
    assert arrived.bootstrap == "127.0.0.1:7001"
    assert librdkafka_options(arrived)["sasl.password"] == "hidden"


def test_names_in_kafka_begin_with_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []
    monkeypatch.setattr(clients, "Consumer", made.append)
    clients.consumer(Settings(kafka="k:9092", topic_prefix="blue"), "tail", {}, None)
    assert (made[0]["group.id"], made[0]["client.id"]) == ("blue-tail", "blue-tail")
    assert clients.topic_name(Settings(topic_prefix="blue"), "penstock.events") == "blue.events"
    assert clients.topic_name(Settings(), "penstock.events") == "penstock.events"


@pytest.mark.parametrize("prefix", ["", ".a", "a.", "a b", "ä", "a" * 101])
def test_a_prefix_that_kafka_would_not_take_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="topic_prefix"):
        Settings(topic_prefix=prefix)


@pytest.mark.parametrize(
    ("code", "said", "setting"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", "sasl.password"),
        (KafkaError._SSL, "SSL handshake failed: certificate verify failed", "ssl.ca.location"),
        (KafkaError._SSL, "SSL handshake failed: tlsv1 alert unknown ca", "ssl.certificate.location"),
        (KafkaError._SSL, "certificate verify failed: hostname mismatch", "ssl.endpoint.identification.algorithm"),
        (KafkaError._SSL, "SSL handshake failed: wrong version number", "security.protocol"),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", "security.protocol"),
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:1 failed: Connection refused", "the setting kafka"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed", "rights"),
    ],
)
def test_a_refusal_says_which_setting_to_look_at(code: int, said: str, setting: str) -> None:
    error = KafkaError(code, said)
    assert setting in clients.advice(error)
    assert clients.describe_error(error).startswith(said)


def test_the_reason_counts_more_than_what_follows_from_it() -> None:
    down, cut = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._TRANSPORT)
    login = KafkaError(KafkaError._AUTHENTICATION)
    assert clients.root_cause([down, cut, login]) is login
    assert clients.root_cause([down, cut]) is cut
    assert clients.root_cause([]) is None
