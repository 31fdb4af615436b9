"""Creates the topics, and updates their limits when settings have changed.

Creation is idempotent. If a topic has another number of partitions than the setting, the start fails: partitions are
added by `penstock topics`.
"""

from __future__ import annotations

import socket
from collections.abc import Container, Iterator
from contextlib import contextmanager

import structlog

from penstock.contract.topics import EVENTS, MATCHED, TOPICS, UNREADABLE, Topic
from penstock.engine.topics.sizing import min_insync, too_few, wanted_replication
from penstock.kafka.admin import TIMEOUT_SECONDS, NotDone, TopicAdmin, TopicShape
from penstock.kafka.clients import topic_name
from penstock.runtime.errors import UserError
from penstock.settings import Settings

log = structlog.get_logger()

MIB = 2**20
ASK_SECONDS = 5.0
SMALLEST_SEGMENT = MIB
"""Kafka refuses smaller ones."""
LARGEST_SEGMENT = 64 * MIB
SEGMENTS = 4
"""Segments of a partition. Retention removes whole segments."""
COMPACTED_SEGMENT_MS = 10 * 60 * 1000
FOR_EVER = {"retention.ms": "-1"}


def partitions_of(topic: Topic, settings: Settings) -> int:
    """Number of partitions of a topic."""
    return settings.partitions if topic.per_partition else 1


def config_of(topic: Topic, settings: Settings, replication: int) -> dict[str, str]:
    """Configuration of a topic."""
    config = {"cleanup.policy": topic.cleanup, "max.message.bytes": str(_largest_record(topic, settings))}
    config |= _retained(topic, settings) if topic.cleanup == "delete" else _compacted(settings)
    if topic.flushed and settings.kafka is None:
        config["flush.messages"] = "1"
    if (insync := min_insync(replication)) > 1:
        config["min.insync.replicas"] = str(insync)
    return config


def _largest_record(topic: Topic, settings: Settings) -> int:
    return settings.max_matched_bytes if topic.name in (MATCHED, UNREADABLE) else settings.max_record_bytes


def _retained(topic: Topic, settings: Settings) -> dict[str, str]:
    """The active segment is never removed, so a partition takes `retention.bytes` plus one segment."""
    size = int(settings.retention_mib * MIB * topic.share / partitions_of(topic, settings))
    segment = min(max(size // SEGMENTS, _largest_record(topic, settings), SMALLEST_SEGMENT), LARGEST_SEGMENT)
    retention_ms = int(settings.retention_hours * 3600 * 1000)
    return {
        "retention.ms": str(retention_ms),
        "retention.bytes": str(max(size - segment, segment)),
        "segment.bytes": str(segment),
        "segment.ms": str(max(min(retention_ms // SEGMENTS, 24 * 3600 * 1000), 1000)),
    }


def _compacted(settings: Settings) -> dict[str, str]:
    """Small topics that are read from the beginning at every start: compacted often, so that this is fast."""
    return {
        "segment.bytes": str(max(4 * MIB, settings.max_record_bytes)),
        "segment.ms": str(COMPACTED_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": str(3600 * 1000),
    }


def check_security(settings: Settings) -> None:
    """Raises UserError for credentials in `kafka_conf` without `kafka`: the embedded Kafka has its own."""
    if settings.kafka is None and "security.protocol" in settings.kafka_conf:
        raise UserError(
            "kafka_conf has a security.protocol, but the embedded Kafka has its own.",
            "Set --kafka to the Kafka that kafka_conf is for, or remove kafka_conf.",
        )


def shapes(settings: Settings, replication: int, partitions: int | None = None) -> list[TopicShape]:
    """The wanted configuration of all topics; `partitions` overrides the setting."""
    wanted = settings if partitions is None else settings.model_copy(update={"partitions": partitions})
    return [
        TopicShape(topic.name, partitions_of(topic, wanted), replication, config_of(topic, wanted, replication))
        for topic in TOPICS
    ]


def ensure(settings: Settings) -> None:
    """Creates missing topics. Raises UserError if Kafka is unreachable, or a topic has a wrong configuration."""
    admin = connect(settings)
    with kafka_errors(settings):
        existing = admin.topics()
        for topic in TOPICS:
            if topic.name in existing:
                _check_partitions(topic, existing[topic.name].partitions, settings)
        create_missing(admin, settings, existing)
        present = [topic for topic in TOPICS if topic.name in existing]
        if settings.kafka is None:
            # Applies the current settings to the topics of the embedded Kafka.
            held = _held(admin, present)
            admin.configure(
                {topic.name: config_of(topic, settings, 1) | (FOR_EVER if topic in held else {}) for topic in present}
            )
        else:
            _check_cleanup(admin, settings, present)


def hold_events(settings: Settings) -> None:
    """Disables the removal of events by age, until `penstock topics --configure`. Raises NotDone."""
    admin = TopicAdmin(settings)
    there = admin.topics()
    admin.configure({topic.name: FOR_EVER for topic in TOPICS if topic.cleanup == "delete" and topic.name in there})


def _held(admin: TopicAdmin, present: list[Topic]) -> list[Topic]:
    """Topics for which the removal by age is disabled."""
    configs = admin.configs([topic.name for topic in present])
    kept = FOR_EVER["retention.ms"]
    return [one for one in present if one.cleanup == "delete" and configs[one.name].get("retention.ms") == kept]


def connect(settings: Settings) -> TopicAdmin:
    """A client of a reachable Kafka. Raises UserError."""
    with kafka_errors(settings):
        admin = TopicAdmin(settings)
        admin.brokers(TIMEOUT_SECONDS if settings.kafka is None else 10.0)
        return admin


@contextmanager
def kafka_errors(settings: Settings) -> Iterator[None]:
    """Turns NotDone into UserError."""
    try:
        yield
    except NotDone as error:
        raise UserError(
            f"Kafka at {settings.bootstrap} is unreachable or refused a request: {error}.",
            "" if settings.kafka else "See the log of kafka.",
        ) from None


def create_missing(admin: TopicAdmin, settings: Settings, existing: Container[str]) -> list[str]:
    """Creates the missing topics and returns their names.

    Raises UserError if brokers are down: new topics would have fewer replicas for ever.
    """
    if all(topic.name in existing for topic in TOPICS):
        return []
    brokers = admin.cluster()
    replication = wanted_replication(settings, brokers)
    if (problem := too_few(replication, brokers)) is not None:
        raise UserError(
            problem, f"Start the other brokers, or set replication={len(brokers.alive)} if there are no others."
        )
    missing = [shape for shape in shapes(settings, replication.replicas) if shape.name not in existing]
    admin.create(missing)
    return [shape.name for shape in missing]


def _check_cleanup(admin: TopicAdmin, settings: Settings, topics: list[Topic]) -> None:
    """With the wrong cleanup.policy routes would expire, or events be compacted before they are delivered."""
    configs = admin.configs([topic.name for topic in topics])
    for topic in topics:
        found = configs[topic.name].get("cleanup.policy", topic.cleanup)
        if found != topic.cleanup:
            raise UserError(
                f"The topic {topic_name(settings, topic.name)} has cleanup.policy {found}, which removes records "
                f"that penstock needs; it must be {topic.cleanup}.",
                "Run: penstock topics --configure",
            )


def with_actual_partitions(settings: Settings) -> Settings:
    """The settings with the actual number of partitions, if partitions were added.

    Returns the settings unchanged if Kafka is unreachable.
    """
    if not _reached(settings):
        return settings
    try:
        found = TopicAdmin(settings).partitions(ASK_SECONDS).get(EVENTS, 0)
    except NotDone:
        return settings
    if found <= settings.partitions:
        return settings
    log.info("the topics have more partitions than the setting", found=found, settings=settings.partitions)
    return settings.model_copy(update={"partitions": found})


def _reached(settings: Settings) -> bool:
    """Whether the first address accepts connections: a Kafka client needs seconds to report that it does not."""
    host, _, port = settings.bootstrap.partition(",")[0].rpartition(":")
    try:
        socket.create_connection((host, int(port)), ASK_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def _check_partitions(topic: Topic, found: int, settings: Settings) -> None:
    """In an existing Kafka more partitions than the setting are fine: `penstock topics` added them."""
    wanted = partitions_of(topic, settings)
    if found == wanted or (found > wanted and settings.kafka is not None and topic.per_partition):
        return
    place = f"the data folder {settings.data_dir}" if settings.kafka is None else settings.kafka
    raise UserError(
        f"The topic {topic_name(settings, topic.name)} has {found} partitions in {place}, but the settings ask for "
        f"{wanted}.",
        f"Start with --partitions {found}, or add partitions: penstock topics --partitions {wanted}"
        if found < wanted
        else f"Start with --partitions {found}.",
    )
