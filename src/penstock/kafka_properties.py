"""Properties of Kafka clients as `kafka_conf` names them: which may be given, and their names for each kind of client.

There are two kinds of clients: librdkafka's, which most of penstock uses, and Java's, which Spark uses. `kafka_conf` is
written once, in librdkafka's names, and has to apply to both, or they would connect to Kafka differently. So a property
without a known counterpart is refused, unless its prefix says which kind of client it is for. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Value = str | int | float | bool | dict[str, str]
"""A value, or where it is found: `{ file = "…" }` or `{ env = "…" }`."""

REFERENCES = ("file", "env")

ONLY_LIBRDKAFKA, ONLY_JAVA = "librdkafka.", "java."
"""Prefixes of properties that are for one kind of clients."""

SECURITY = frozenset(
    {
        "security.protocol",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
"""Translated one by one: Java has other names or another shape for most of them."""

COUNTERPARTS = {
    "client.dns.lookup": "client.dns.lookup",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Properties that mean the same to both, and what Java calls them."""

ALIASES = {"sasl.mechanism": "sasl.mechanisms"}
"""Java's name of a property that is known by librdkafka's."""

INSTEAD = {
    "bootstrap.servers": "the setting `kafka` names the brokers",
    "metadata.broker.list": "the setting `kafka` names the brokers",
    "client.id": "the setting `topic_prefix` begins it",
    "group.id": "the setting `topic_prefix` begins it",
    "transactional.id": "the setting `topic_prefix` begins it",
    "enable.ssl.certificate.verification": "Java cannot do without; name the authority with ssl.ca.location",
    "sasl.jaas.config": "give sasl.mechanisms, sasl.username and sasl.password, from which it is made",
    "ssl.keystore.location": "give PEM files with ssl.certificate.location and ssl.key.location",
    "ssl.truststore.location": "give a PEM file with ssl.ca.location",
    "ssl.cipher.suites": "the two kinds of clients name ciphers differently; give `librdkafka.ssl.cipher.suites` in "
    "OpenSSL's words and `java.ssl.cipher.suites` in Java's",
}
"""What to do instead of giving a property that people try."""

PRODUCER_MEMORY_BYTES = 32 * 1024 * 1024
"""What a Java producer may hold that is not written yet. It takes no record that is larger."""

RETRIES_FOREVER = {
    "acks": "all",
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "1",
    "retries": "2147483647",
    "delivery.timeout.ms": "2147483647",
    "max.block.ms": "2147483647",
    "buffer.memory": str(PRODUCER_MEMORY_BYTES),
}
"""What keeps the records of a Java producer in order, and without a gap: it retries a batch until it is written, while
those after it wait. By default it drops a batch after two minutes and writes the next ones."""

OURS = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list", "client.id", "group.id", "transactional.id"),
        *("acks", "request.required.acks", "partitioner", "enable.auto.commit", "auto.offset.reset"),
        *("isolation.level", "message.max.bytes", "max.request.size", "statistics.interval.ms", "plugin.library.paths"),
        *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "interceptor.classes"),
        *("security.protocol", "sasl.jaas.config", "sasl.mechanism"),
    }
)
"""Properties that penstock's guarantees depend on: they cannot be given with a prefix either."""

OURS_OF_PRODUCERS = frozenset(
    {
        *RETRIES_FOREVER,
        *("message.timeout.ms", "message.send.max.retries", "max.in.flight", "enable.gapless.guarantee"),
        *("transaction.timeout.ms", "partitioner.class"),
    }
)
"""The same for properties that decide which records a producer drops, and in which order it writes the others."""

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""SASL mechanisms, and their login modules in Java."""

_SECRET = re.compile(r"password|secret|token|jaas|ssl\.key|keystore\.key", re.IGNORECASE)


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table by whole names: `security = { protocol = … }` is `security.protocol`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and not value.keys() & set(REFERENCES):
            found |= {f"{name}.{rest}": inner for rest, inner in flat(value).items()}
        else:
            found[name] = value
    return found


def named(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the names that are used here."""
    return {ALIASES.get(name, name): value for name, value in conf.items()}


def is_secret(name: str) -> bool:
    """Whether the value must not be shown. The location of a file is not secret."""
    return bool(_SECRET.search(name)) and not name.endswith(".location")


def secrets_given(conf: Mapping[str, Any]) -> list[str]:
    """Names of secrets that are given as they are, not as a reference."""
    return sorted(name for name, value in conf.items() if is_secret(name) and not isinstance(value, Mapping))


def wrong_with(conf: Mapping[str, Any]) -> list[str]:
    """What is invalid, each as a sentence that never contains a secret."""
    table = named(conf)
    found = [reason for name, value in table.items() if (reason := _wrong_value(name, value) or _wrong_name(name))]
    return found or list(_wrong_together(table))


def _wrong_name(name: str) -> str | None:
    if name in SECURITY or name in COUNTERPARTS:
        return None
    for prefix in (ONLY_LIBRDKAFKA, ONLY_JAVA):
        if name.startswith(prefix):
            plain = name.removeprefix(prefix)
            return _of_penstock(plain)
    if name in INSTEAD:
        return f"{name} cannot be given: {INSTEAD[name]}"
    return _of_penstock(name) or (
        f"{name} is not known to mean the same to librdkafka and to Spark's Java clients; "
        f"write {ONLY_LIBRDKAFKA}{name} or {ONLY_JAVA}{name}, or both"
    )


def _of_penstock(name: str) -> str | None:
    if name in OURS:
        return f"{name} is penstock's own and cannot be given"
    if name in OURS_OF_PRODUCERS:
        return f"{name} cannot be given: penstock sets it, so that no event is lost and none overtakes another"
    return None


def _wrong_value(name: str, value: object) -> str | None:
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in REFERENCES:
            return f'{name} must be a value, {{ file = "…" }} or {{ env = "…" }}'
        return None
    if name == "security.protocol" and str(value).lower() not in PROTOCOLS:
        return f"security.protocol must be one of {', '.join(PROTOCOLS)}"
    if name == "sasl.mechanisms" and str(value).upper() not in MECHANISMS:
        return f"sasl.mechanisms must be one of {', '.join(MECHANISMS)}"
    return None


def _wrong_together(table: Mapping[str, Any]) -> list[str]:
    """What is missing, or there twice."""
    protocol = str(table.get("security.protocol", "plaintext")).lower()
    found = []
    if protocol.startswith("sasl_"):
        missing = [name for name in ("sasl.mechanisms", "sasl.username", "sasl.password") if name not in table]
        found += [f"security.protocol {protocol} needs {name}" for name in missing]
    elif needless := sorted(name for name in table if name.startswith("sasl.")):
        found.append(f"{needless[0]} counts only with security.protocol sasl_ssl or sasl_plaintext")
    if not protocol.endswith("ssl") and (needless := sorted(name for name in table if name.startswith("ssl."))):
        found.append(f"{needless[0]} counts only with security.protocol ssl or sasl_ssl")
    for what in ("ssl.ca", "ssl.certificate", "ssl.key"):
        if f"{what}.location" in table and f"{what}.pem" in table:
            found.append(f"{what}.location and {what}.pem cannot both be given")
    certificate, key = (any(f"{what}.{form}" in table for form in ("location", "pem")) for what in _PAIR)
    if certificate != key:
        found.append("ssl.certificate and ssl.key (location or pem) belong together")
    return found


_PAIR = ("ssl.certificate", "ssl.key")
