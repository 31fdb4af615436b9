"""What Kafka's refusals mean to who runs penstock: which setting to look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError

RIGHTS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
UNREACHED = frozenset({KafkaError._RESOLVE, KafkaError._TRANSPORT})

_TLS = (
    (("unknown ca", "alert number 48", "certificate required", "bad certificate"), "ssl.certificate.location"),
    (("mismatch",), "ssl.endpoint.identification.algorithm and the names in the setting kafka"),
    (("verify failed", "certificate"), "ssl.ca.location"),
)
"""What a failed handshake says, and the property that is behind it; the first that fits counts."""


def advice(error: KafkaError) -> str:
    """Which setting to look at; empty where the error has nothing to do with settings."""
    code, text = error.code(), str(error.str()).lower()
    if code in LOGIN:
        return "look at sasl.mechanisms, sasl.username and sasl.password in kafka_conf"
    if code in RIGHTS:
        return "give the user in kafka_conf (sasl.username, or the certificate's name) the rights in docs/kafka.md"
    if code == KafkaError._SSL:
        found = next((what for signs, what in _TLS if any(sign in text for sign in signs)), "security.protocol")
        return f"look at {found} in kafka_conf"
    if code == KafkaError.INVALID_TIMESTAMP:
        return "the clocks of this machine and of Kafka's differ by an hour or more: set the one that is wrong"
    if code == KafkaError._ALL_BROKERS_DOWN:
        # Nobody said that a connection was refused, so it was taken and closed again.
        return "look at security.protocol in kafka_conf, and at the addresses in the setting kafka"
    return "look at the addresses in the setting kafka" if code in UNREACHED else ""


def sentence(error: KafkaError) -> str:
    """What Kafka said, and what to look at."""
    said, hint = error.str(), advice(error)
    return f"{said}; {hint}" if hint else str(said)


def most_telling(errors: Iterable[KafkaError]) -> KafkaError | None:
    """The error that says why the others happened. That no broker is reached follows from anything."""
    return min(errors, key=_rank, default=None)


def _rank(error: KafkaError) -> int:
    code = error.code()
    if code in LOGIN or code in RIGHTS or code == KafkaError._SSL:
        return 0
    if code == KafkaError._ALL_BROKERS_DOWN:
        return 3
    return 1 if code in UNREACHED else 2
