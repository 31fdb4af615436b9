"""Every Kafka client of penstock is made here: where it connects, how it proves itself, what it may send.

What all clients share stands in one place; a role adds what is its own. `kafka_conf` of the settings (TLS, SASL) goes
to every one of them, but cannot change what a role depends on. Spark's clients are not made here; they get the same by
`connection.java_options`.
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
    NEVER_GIVES_UP,
    ONLY_JAVA,
    ONLY_LIBRDKAFKA,
    SECURITY,
    Value,
    named,
)
from penstock.settings import Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


# How this installation connects to Kafka: `kafka_conf` as librdkafka takes it, and as Spark's Java clients do. The
# embedded Kafka asks for credentials as well. They are made by `penstock.engine.embedded_kafka`; here they take the
# place of what `kafka_conf` says for another Kafka, so that all clients get them in the same way. What is kept in
# files and variables is read here, each time a client is made, so that a new client has a renewed certificate or
# password. Everything becomes text that travels: an executor finds neither the files nor the variables of the machine
# that Spark's driver runs on.

EMBEDDED_USER = "penstock"
"""The user of the embedded Kafka."""

EMBEDDED_MECHANISM = "SCRAM-SHA-512"
"""The password is never sent, and the client learns whether the server knows it: another account that listens at the
port in place of Kafka gets nothing to log in with, and its records are not believed."""


class UnusableConf(ValueError):
    """`kafka_conf` names something that cannot be used. The text says what, and never tells a secret."""


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
    """What a Kafka source or sink of Spark needs to find Kafka and be let in. What is set after it counts more."""
    options = java_options(settings) | {"bootstrap.servers": settings.bootstrap}
    return {f"kafka.{name}": value for name, value in options.items()}


def spark_producer_options(settings: Settings) -> dict[str, str]:
    """What a Kafka sink of Spark needs, so that it leaves out no record while it writes later ones of a partition."""
    return spark_options(settings) | {f"kafka.{name}": value for name, value in NEVER_GIVES_UP.items()}


def portable(settings: Settings) -> Settings:
    """The same settings for a process on another machine: nothing in them refers to this one's files and variables.

    The embedded Kafka is named like any other: its password is not in a file there.
    """
    return settings.model_copy(update={"kafka": settings.bootstrap, "kafka_conf": _resolved(settings)})


def _only(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in table.items() if name.startswith(prefix)}


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resolved(settings: Settings) -> dict[str, Any]:
    """The table with the contents of what it refers to."""
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
    """How a Java client logs in."""
    return f"{MECHANISMS[mechanism]} required username={_quoted(username)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise UnusableConf("sasl.username and sasl.password in kafka_conf must not contain control characters")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pkcs8(pem: str, password: str | None) -> str:
    """A private key in the one form that Java reads, without its password."""
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
"""Kafka's own, as every other client of Kafka has it: equal keys share a partition, whoever writes them."""

RECONNECT_MS = 50
RECONNECT_MAX_MS = 1000
METADATA_REFRESH_MS = 30_000
QUEUE_BACKOFF_MS = 10
"""A client whose queue is full asks Kafka again after so long. It is empty long before librdkafka's second is over."""

Options = Mapping[str, Any]


def topic_name(settings: Settings, topic: str) -> str:
    """The name in Kafka of a topic of the contract."""
    return topics.name_in_kafka(topic, settings.topic_prefix)


def producer(settings: Settings, role: str, options: Options, watchdog: Watchdog | None) -> Producer:
    """A producer. Only one that is polled now and then may have a watchdog: what it hears would pile up unheard."""
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
        "group.id": f"{settings.topic_prefix}-{role}",  # librdkafka asks for one even where none is joined
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }
    config = {**_common(settings, role), **shared, **options}
    return Consumer(config if watchdog is None else watchdog.of(config))


def admin(settings: Settings, complain: Callable[[KafkaError], None] = lambda error: None) -> AdminClient:
    """A client for topics: short-lived, quick to reconnect; each of its questions reports its own failure.

    What it has to say about its connections is told to `complain`, when it is polled.
    """
    own: dict[str, Any] = {
        "reconnect.backoff.max.ms": 300,
        "socket.connection.setup.timeout.ms": 5000,
        "log_level": 0,
        "error_cb": complain,
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


# What Kafka's refusals mean to who runs penstock: which setting to look at. Pure.

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
