"""Every Kafka client of penstock is made here: where it connects, how it proves itself, what it may send.

What all clients share stands in one place; a role adds what is its own. `kafka_conf` of the settings (TLS, SASL) goes
to every one of them, but cannot change what a role depends on. Spark's clients are not made here; they get the same by
`connection.java_options`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from penstock.contract import topics
from penstock.kafka.connection import librdkafka_options
from penstock.kafka.watchdog import Watchdog
from penstock.settings import Settings

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
