"""`kafka_conf`: what is refused, in which words, and that no words tell a secret."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock import kafka_properties
from penstock.kafka_properties import wrong_with
from penstock.settings import Settings

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "penstock",
    "sasl.password": "hidden",
}


@pytest.mark.parametrize(
    "conf",
    [
        {},
        SCRAM,
        SCRAM | {"sasl.password": {"file": "/run/secrets/kafka"}},
        SCRAM | {"ssl.ca.location": "/etc/ca.pem", "client.rack": "a", "socket.timeout.ms": 20000},
        {"security.protocol": "ssl", "ssl.certificate.pem": "c", "ssl.key.location": "k", "ssl.key.password": "p"},
        {"librdkafka.broker.address.family": "v4", "java.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"},
    ],
)
def test_what_reaches_every_client_is_taken(conf: dict[str, object]) -> None:
    assert wrong_with(conf) == []


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"broker.address.family": "v4"}, "librdkafka.broker.address.family or java.broker.address.family"),
        ({"bootstrap.servers": "k:9092"}, "the setting `kafka` names the brokers"),
        ({"acks": "1"}, "acks is penstock's own"),
        ({"librdkafka.acks": "1"}, "acks is penstock's own"),
        ({"java.group.id": "mine"}, "group.id is penstock's own"),
        ({"retries": 3}, "retries cannot be given: penstock sets it, so that no event is lost"),
        ({"java.retries": 3}, "retries cannot be given: penstock sets it"),
        ({"java.delivery.timeout.ms": 30000}, "delivery.timeout.ms cannot be given: penstock sets it"),
        ({"java.max.block.ms": 1000}, "max.block.ms cannot be given: penstock sets it"),
        ({"java.buffer.memory": 1000}, "buffer.memory cannot be given: penstock sets it"),
        ({"java.enable.idempotence": False}, "enable.idempotence cannot be given: penstock sets it"),
        ({"librdkafka.message.timeout.ms": 1000}, "message.timeout.ms cannot be given: penstock sets it"),
        ({"librdkafka.message.send.max.retries": 0}, "message.send.max.retries cannot be given: penstock sets it"),
        ({"librdkafka.max.in.flight": 5}, "max.in.flight cannot be given: penstock sets it"),
        ({"ssl.truststore.location": "/a.jks"}, "ssl.ca.location"),
        ({"enable.ssl.certificate.verification": False}, "Java cannot do without"),
        ({"security.protocol": "tls"}, "one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
        (SCRAM | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanisms must be one of PLAIN"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN"}, "needs sasl.username"),
        ({"sasl.username": "u"}, "sasl.username counts only with security.protocol sasl_ssl"),
        ({"ssl.ca.location": "c"}, "ssl.ca.location counts only with security.protocol ssl"),
        (SCRAM | {"ssl.ca.location": "c", "ssl.ca.pem": "d"}, "cannot both be given"),
        (SCRAM | {"ssl.certificate.location": "c"}, "belong together"),
        (
            SCRAM | {"sasl.password": {"file": "x", "env": "y"}},
            'sasl.password must be a value, { file = "…" } or { env = "…" }',
        ),
    ],
)
def test_what_some_clients_would_not_have_is_refused_by_name(conf: dict[str, object], words: str) -> None:
    [told] = {reason for reason in wrong_with(conf) if words in reason}
    assert "hidden" not in told


def test_neither_the_settings_nor_their_errors_show_a_secret() -> None:
    assert "hidden" not in repr(Settings(kafka="k:9092", kafka_conf=SCRAM))
    with pytest.raises(ValidationError) as caught:
        Settings(kafka_conf=SCRAM | {"what": "is this"})
    assert "hidden" not in str(caught.value)
    assert "what is not known" in str(caught.value)


def test_secrets_are_told_from_what_may_be_seen() -> None:
    given = SCRAM | {"ssl.key.pem": "k", "ssl.key.location": "f", "ssl.ca.pem": "c", "java.sasl.jaas.config": "j"}
    assert kafka_properties.secrets_given(given) == ["java.sasl.jaas.config", "sasl.password", "ssl.key.pem"]
    assert kafka_properties.secrets_given({"sasl.password": {"env": "P"}}) == []
