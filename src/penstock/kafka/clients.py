"""Creates every Kafka client of penstock: where it connects, how it authenticates, what it may send.

The options that all clients share are in one place; a role adds its own. `kafka_conf` of the settings (TLS, SASL)
applies to every client, but cannot change what a role depends on. Spark's clients are not created here; they get the
same configuration by `java_options`.

For the embedded Kafka the credentials that `penstock.engine.embedded_kafka` creates replace those of `kafka_conf`, so
that all clients get them in the same way. Files and variables are read each time a client is created, so that a new
client has a renewed certificate or password. Their contents become part of the options, because an executor has neither
the files nor the variables of the machine of Spark's driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from penstock.contract import topics
from penstock.kafka.watchdog import Watchdog
from penstock.kafka_properties import (
    COUNTERPARTS,
    MECHANISMS,
    ONLY_JAVA,
    ONLY_LIBRDKAFKA,
    RETRIES_FOREVER,
    SECURITY,
    Value,
    named,
)
from penstock.settings import Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


EMBEDDED_USER = "penstock"
"""The user of the embedded Kafka."""

EMBEDDED_MECHANISM = "SCRAM-SHA-512"
"""The password is never sent, and the client verifies that the server knows it: another account that listens at the
port instead of Kafka gets nothing to log in with, and the client does not connect to it."""


class UnusableConf(ValueError):
    """`kafka_conf` refers to something that cannot be used. The text says what, and never contains a secret."""


def embedded_password_file(settings: Settings) -> Path:
    """Where the password of the embedded Kafka is kept."""
    return settings.data_dir / "pki" / "kafka-password"


def embedded_conf(settings: Settings) -> dict[str, Value]:
    """`kafka_conf` of a client of the embedded Kafka."""
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": EMBEDDED_MECHANISM,
        "sasl.username": EMBEDDED_USER,
        "sasl.password": {"file": str(embedded_password_file(settings))},
    }


def librdkafka_options(settings: Settings) -> dict[str, Any]:
    """`kafka_conf` for a client of librdkafka."""
    table = _resolved(settings)
    own = {name: value for name, value in table.items() if name in SECURITY or name in COUNTERPARTS}
    return own | _only(ONLY_LIBRDKAFKA, table)


def java_options(settings: Settings) -> dict[str, str]:
    """`kafka_conf` for a Java client."""
    table = _resolved(settings)
    options: dict[str, Any] = {java: table[name] for name, java in COUNTERPARTS.items() if name in table}
    options |= _java_security({name: str(value) for name, value in table.items() if name in SECURITY})
    options |= _only(ONLY_JAVA, table)
    return {name: _java_text(value) for name, value in options.items()}


def spark_options(settings: Settings) -> dict[str, str]:
    """The options of a Kafka source or sink of Spark to connect to Kafka. Options that are set later override them."""
    options = java_options(settings) | {"bootstrap.servers": settings.bootstrap}
    return {f"kafka.{name}": value for name, value in options.items()}


def spark_producer_options(settings: Settings) -> dict[str, str]:
    """The options of a Kafka sink of Spark, so that it never skips a record and writes later ones of a partition."""
    return spark_options(settings) | {f"kafka.{name}": value for name, value in RETRIES_FOREVER.items()}


def portable(settings: Settings) -> Settings:
    """The same settings for a process on another machine, without references to this machine's files and variables.

    The embedded Kafka becomes an ordinary one: the other machine does not have the file with its password.
    """
    return settings.model_copy(update={"kafka": settings.bootstrap, "kafka_conf": _resolved(settings)})


def _only(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in table.items() if name.startswith(prefix)}


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resolved(settings: Settings) -> dict[str, Any]:
    """The table with references replaced by their contents."""
    table: dict[str, Any] = {}
    for name, value in named(settings.kafka_conf).items():
        if isinstance(value, Mapping):
            table[name] = _referred_to(name, value)
        elif name.startswith("ssl.") and name.endswith(".location"):
            table[name.removesuffix("location") + "pem"] = _read(name, str(value))
        else:
            table[name] = value
    if settings.kafka is None:
        table |= {**embedded_conf(settings), "sasl.password": _embedded_password(embedded_password_file(settings))}
    return table


def _embedded_password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnusableConf(
            f"the embedded Kafka asks for the password in {path}, which cannot be read: {error.strerror}"
        ) from None


def _referred_to(name: str, reference: Mapping[str, str]) -> str:
    if "file" in reference:
        return _read(name, reference["file"]).rstrip("\r\n")
    variable = reference["env"]
    if variable not in os.environ:
        raise UnusableConf(f"{name} in kafka_conf is to be found in the variable {variable}, which is not set")
    return os.environ[variable]


def _read(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise UnusableConf(f"{name} in kafka_conf names {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnusableConf(f"{name} in kafka_conf names {path}, which is not text (PEM)") from None


def _java_security(table: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    if "security.protocol" in table:
        options["security.protocol"] = table["security.protocol"].upper()
    if "sasl.mechanisms" in table:
        mechanism = table["sasl.mechanisms"].upper()
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = jaas(mechanism, table["sasl.username"], table["sasl.password"])
    if "ssl.ca.pem" in table:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": table["ssl.ca.pem"]}
    if "ssl.certificate.pem" in table:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": table["ssl.certificate.pem"],
            "ssl.keystore.key": pkcs8(table["ssl.key.pem"], table.get("ssl.key.password")),
        }
    if "ssl.endpoint.identification.algorithm" in table:
        algorithm = table["ssl.endpoint.identification.algorithm"]
        options["ssl.endpoint.identification.algorithm"] = "" if algorithm.lower() == "none" else algorithm
    return options


def jaas(mechanism: str, username: str, password: str) -> str:
    """The JAAS configuration of a Java client."""
    return f"{MECHANISMS[mechanism]} required username={_quoted(username)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise UnusableConf("sasl.username and sasl.password in kafka_conf must not contain control characters")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pkcs8(pem: str, password: str | None) -> str:
    """A private key in the form that Java reads, without its password."""
    from cryptography.hazmat.primitives import serialization

    return (
        _private_key(pem, password)
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


def _private_key(pem: str, password: str | None) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        return serialization.load_pem_private_key(pem.encode(), password.encode() if password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UnusableConf(
            "ssl.key (location or pem) in kafka_conf is not a private key in PEM, or ssl.key.password does not open it"
        ) from None


PARTITIONER = "murmur2_random"
"""That of Kafka's Java clients: equal keys share a partition, whichever client writes them."""

RECONNECT_MS = 50
RECONNECT_MAX_MS = 1000
METADATA_REFRESH_MS = 30_000
QUEUE_BACKOFF_MS = 10
"""Pause of a client whose queue is full. The queue is empty long before librdkafka's default of a second is over."""

Options = Mapping[str, Any]


def topic_name(settings: Settings, topic: str) -> str:
    """The name in Kafka of a topic of the contract."""
    return topics.name_in_kafka(topic, settings.topic_prefix)


def producer(settings: Settings, role: str, options: Options, watchdog: Watchdog | None) -> Producer:
    """A producer. Only one that is polled may have a watchdog: its statistics would pile up."""
    shared = {
        "acks": "all",
        "partitioner": PARTITIONER,
        "message.max.bytes": settings.max_record_bytes,
        "socket.nagle.disable": True,
    }
    config = {**_common(settings, role), **shared, **options}
    return Producer(config if watchdog is None else watchdog.of(config))


def consumer(settings: Settings, role: str, options: Options, watchdog: Watchdog | None) -> Consumer:
    """A consumer without a group, which reads what it is assigned. As to the watchdog, see `producer`."""
    shared = {
        "group.id": f"{settings.topic_prefix}-{role}",  # librdkafka requires one even if no group is joined
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }
    config = {**_common(settings, role), **shared, **options}
    return Consumer(config if watchdog is None else watchdog.of(config))


def admin(settings: Settings, on_error: Callable[[KafkaError], None] = lambda error: None) -> AdminClient:
    """A client for topics: short-lived, quick to reconnect; each of its requests reports its own failure.

    `on_error` gets errors of its connections, when it is polled.
    """
    own: dict[str, Any] = {
        "reconnect.backoff.max.ms": 300,
        "socket.connection.setup.timeout.ms": 5000,
        "log_level": 0,
        "error_cb": on_error,
    }
    return AdminClient({**_common(settings, "admin"), **own})


def _common(settings: Settings, role: str) -> dict[str, Any]:
    return {
        "client.id": f"{settings.topic_prefix}-{role}",
        "reconnect.backoff.ms": RECONNECT_MS,
        "reconnect.backoff.max.ms": RECONNECT_MAX_MS,
        "topic.metadata.refresh.interval.ms": METADATA_REFRESH_MS,
        **librdkafka_options(settings),
        "bootstrap.servers": settings.bootstrap,
    }


AUTHORIZATION_ERRORS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
AUTHENTICATION_ERRORS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
CONNECTION_ERRORS = frozenset({KafkaError._RESOLVE, KafkaError._TRANSPORT})

_TLS = (
    (("unknown ca", "alert number 48", "certificate required", "bad certificate"), "ssl.certificate.location"),
    (("mismatch",), "ssl.endpoint.identification.algorithm and the names in the setting kafka"),
    (("verify failed", "certificate"), "ssl.ca.location"),
)
"""Texts of failed handshakes, and the property to check; the first that matches counts."""


def advice(error: KafkaError) -> str:
    """The setting to check for an error of Kafka; empty where the error has nothing to do with settings."""
    code, text = error.code(), str(error.str()).lower()
    if code in AUTHENTICATION_ERRORS:
        return "look at sasl.mechanisms, sasl.username and sasl.password in kafka_conf"
    if code in AUTHORIZATION_ERRORS:
        return "give the user in kafka_conf (sasl.username, or the certificate's name) the rights in docs/kafka.md"
    if code == KafkaError._SSL:
        found = next((what for signs, what in _TLS if any(sign in text for sign in signs)), "security.protocol")
        return f"look at {found} in kafka_conf"
    if code == KafkaError.INVALID_TIMESTAMP:
        return "the clocks of this machine and of Kafka's differ by an hour or more: set the one that is wrong"
    if code == KafkaError._ALL_BROKERS_DOWN:
        # There was no error of a refused connection, so a connection was accepted and closed again.
        return "look at security.protocol in kafka_conf, and at the addresses in the setting kafka"
    return "look at the addresses in the setting kafka" if code in CONNECTION_ERRORS else ""


def describe_error(error: KafkaError) -> str:
    """The error of Kafka as a sentence, with the setting to check."""
    text, hint = error.str(), advice(error)
    return f"{text}; {hint}" if hint else str(text)


def root_cause(errors: Iterable[KafkaError]) -> KafkaError | None:
    """The error that explains the others. "All brokers down" is a consequence of any other."""
    return min(errors, key=_rank, default=None)


def _rank(error: KafkaError) -> int:
    code = error.code()
    if code in AUTHENTICATION_ERRORS or code in AUTHORIZATION_ERRORS or code == KafkaError._SSL:
        return 0
    if code == KafkaError._ALL_BROKERS_DOWN:
        return 3
    return 1 if code in CONNECTION_ERRORS else 2
