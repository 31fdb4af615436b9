"""A process that becomes `nobody`, if it may, and tries what it is asked on its command line. Prints what it got.

`send`: bytes (in hexadecimal) to ports; what is received until the end of the connection. `files`: which of them it can
read. `kafka`: a client with this configuration lists the topics and writes to `topic`.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  # found when first used, which the other account is not allowed to
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

NOBODY = 65534
SECONDS = 20.0
"""A server that neither answers nor closes the connection has not answered."""


def received(port: int, sent: bytes) -> bytes:
    """Everything that comes back."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection, suppress(OSError):
        connection.sendall(sent)
        while part := connection.recv(65536):
            got += part
            connection.settimeout(2.0)  # the rest of an answer comes at once
    return got


def readable(file: str) -> bool:
    """Whether this account can read a file."""
    with suppress(OSError):
        return bool(Path(file).read_bytes())
    return False


def as_client(config: dict[str, Any], topic: str) -> dict[str, Any]:
    """What a client of Kafka can do."""
    errors: set[str] = set()
    delivered: list[object] = []

    def failed(error: KafkaError) -> None:
        errors.add("_AUTHENTICATION" if error.code() == KafkaError._AUTHENTICATION else error.name())

    def told(error: KafkaError | None, message: object) -> None:
        if error is None:
            delivered.append(message)

    producer = Producer({**config, "error_cb": failed, "log_level": 0})
    topics: list[str] = []
    producer.produce(topic, b"x", b"route/other-account", on_delivery=told)
    until = time.monotonic() + SECONDS
    while not errors and not delivered and time.monotonic() < until:
        producer.poll(0.1)
    with suppress(KafkaException):
        topics = sorted(producer.list_topics(timeout=2.0 if errors else SECONDS).topics)
    producer.flush(1)
    producer.purge()
    return {
        "errors": sorted(errors - {"_ALL_BROKERS_DOWN", "_TRANSPORT"}),
        "delivered": len(delivered),
        "topics": topics,
    }


def main() -> None:
    """Tries."""
    asked = json.loads(sys.argv[1])
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    got: dict[str, Any] = {"uid": os.geteuid()}
    if "send" in asked:
        got["received"] = [received(port, bytes.fromhex(sent)).hex() for port, sent in asked["send"]]
    if "files" in asked:
        got["readable"] = [file for file in asked["files"] if readable(file)]
    if "kafka" in asked:
        got |= as_client(asked["kafka"], asked["topic"])
    print(json.dumps(got))


main()
