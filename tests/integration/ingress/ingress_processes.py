"""Ingress processes as the engine starts them, and what they have written to Kafka."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from penstock.contract import routes, topics
from penstock.contract.routes import Access, ApiKey, Record, Target, Version
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from penstock.ingress.authorization import digest_of
from penstock.settings import Settings
from tests.running import headers_of, kafka_access, read_to_end
from tests.waiting import eventually

BROKER = Target("broker-uid", "Broker", "shop", "orders", ("/shop/orders",))
CHANNEL = Target(
    "channel-uid", "Channel", "shop", "pipe", ("/channels/shop/pipe",), ("pipe-kn-channel.shop.svc.cluster.local",)
)
KEY = "pk_swordfish"
CLOSED = Target(
    "closed-uid",
    "Broker",
    "shop",
    "closed",
    ("/shop/closed",),
    access=Access(keys=(ApiKey("till", digest_of(KEY)),)),
    transport="strict",
)
"""Takes events over HTTPS only, from who has the key."""
EVENT = {"ce-specversion": "1.0", "ce-source": "/test", "ce-type": "made.up"}


def publish(settings: Settings, *records: Record) -> None:
    """Writes records of the snapshot."""
    producer = Producer({**kafka_access(settings), "acks": "all"})
    for record in records:
        producer.produce(topics.ROUTES, key=routes.key_of(record), value=routes.encode(record))
    assert producer.flush(60) == 0


@dataclass
class IngressProcess:
    """A running ingress."""

    process: subprocess.Popen[bytes]
    settings: Settings
    log: Path

    def post(self, path: str, headers: dict[str, str], body: bytes = b"", method: str = "POST") -> tuple[int, bytes]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.settings.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()

    def is_ready(self) -> bool:
        """Whether this very process serves; others may answer at its port."""
        said = self.log.read_text()
        assert self.process.poll() is None, f"the ingress ended:\n{said[-3000:]}"
        return "accepting events" in said


@contextlib.contextmanager
def ingress_process(
    settings: Settings, folder: Path, environment: dict[str, str] | None = None
) -> Iterator[IngressProcess]:
    """An ingress of these settings, ready."""
    file = folder / f"settings-{uuid.uuid4().hex}.json"
    file.write_text(settings.model_dump_json())
    command = [sys.executable, "-m", "penstock.engine.child", "ingress", "--settings", str(file)]
    log_file = file.with_suffix(".log")
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    try:
        ingress = IngressProcess(process, settings, log_file)
        eventually(ingress.is_ready)
        yield ingress
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the ingress did not end; its log:\n{log_file.read_text()[-3000:]}") from None


def stored(
    settings: Settings, topic: str = topics.EVENTS
) -> list[tuple[dict[str, bytes], bytes | None, int, str | None]]:
    """Every record of a topic: headers, value, partition, key."""
    found = []
    for message in read_to_end(settings, topic):
        partition, key = message.partition(), message.key()
        assert partition is not None
        found.append((headers_of(message), message.value(), partition, key.decode() if key else None))
    return found


def stored_events(settings: Settings) -> list[CloudEvent]:
    """Every event in the log."""
    return [kafka.from_headers(headers.items(), value) for headers, value, _, _ in stored(settings)]


def stored_ids(settings: Settings) -> list[str]:
    """The id of every event in the log, repetitions included."""
    return [event.id for event in stored_events(settings)]


def acknowledged_versions(settings: Settings) -> list[int]:
    """The snapshot versions that ingress processes have reported, in order."""
    return [
        json.loads(value)["version"]
        for _, value, _, key in stored(settings, topics.REPORTS)
        if value is not None and (key or "").startswith("ack/ingress/")
    ]


def first_snapshot() -> tuple[Record, ...]:
    """Two Brokers and a Channel."""
    return BROKER, CHANNEL, CLOSED, Version(1, targets=3)
