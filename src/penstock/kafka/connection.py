"""How this installation connects to Kafka: `kafka_conf` as librdkafka takes it, and as Spark's Java clients do.

The embedded Kafka asks for credentials as well. They are made by `penstock.engine.embedded_kafka`; here they take the
place of what `kafka_conf` says for another Kafka, so that all clients get them in the same way.

What is kept in files and variables is read here, each time a client is made, so that a new client has a renewed
certificate or password. Everything becomes text that travels: an executor finds neither the files nor the variables of
the machine that Spark's driver runs on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
