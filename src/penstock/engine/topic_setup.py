"""Creating penstock's topics as the contract shapes them, and keeping their limits as the settings say.

Sizes are decided here, purely, and applied by a thin edge. Creating is idempotent. A different number of partitions
cannot be put right without moving events between partitions, so it is refused with a message.
"""

from __future__ import annotations

from penstock.contract.topics import MATCHED, TOPICS, UNREADABLE, Topic
from penstock.engine.problem import Problem
from penstock.log.admin import TIMEOUT_SECONDS, NotDone, TopicAdmin, TopicShape
from penstock.settings import Settings

MIB = 2**20
SMALLEST_SEGMENT = MIB
"""Kafka refuses smaller ones."""
LARGEST_SEGMENT = 64 * MIB
SEGMENTS = 4
"""Segments a partition is divided into: retention removes whole ones, so more of them waste less."""
COMPACTED_SEGMENT_MS = 10 * 60 * 1000


def partitions_of(topic: Topic, settings: Settings) -> int:
    """Number of partitions of a topic."""
    return settings.partitions if topic.per_partition else 1


def config_of(topic: Topic, settings: Settings, replication: int) -> dict[str, str]:
    """Configuration of a topic."""
    config = {"cleanup.policy": topic.cleanup, "max.message.bytes": str(_largest_record(topic, settings))}
    config |= _retained(topic, settings) if topic.cleanup == "delete" else _compacted(settings)
    if topic.flushed and settings.kafka is None:
        config["flush.messages"] = "1"
    if replication >= 3:
        config["min.insync.replicas"] = "2"
    return config


def _largest_record(topic: Topic, settings: Settings) -> int:
    return settings.max_matched_bytes if topic.name in (MATCHED, UNREADABLE) else settings.max_record_bytes


def _retained(topic: Topic, settings: Settings) -> dict[str, str]:
    """The segment in use is never removed, so a partition takes `retention.bytes` and one segment."""
    room = int(settings.retention_mib * MIB * topic.share / partitions_of(topic, settings))
    segment = min(max(room // SEGMENTS, _largest_record(topic, settings), SMALLEST_SEGMENT), LARGEST_SEGMENT)
    retention_ms = int(settings.retention_hours * 3600 * 1000)
    return {
        "retention.ms": str(retention_ms),
        "retention.bytes": str(max(room - segment, segment)),
        "segment.bytes": str(segment),
        "segment.ms": str(max(min(retention_ms // SEGMENTS, 24 * 3600 * 1000), 1000)),
    }


def _compacted(settings: Settings) -> dict[str, str]:
    """Small topics that are read from the beginning at every start: compacted often, so that this stays quick."""
    return {
        "segment.bytes": str(max(4 * MIB, settings.max_record_bytes)),
        "segment.ms": str(COMPACTED_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": str(3600 * 1000),
    }


def replication_of(settings: Settings, brokers: int) -> int:
    """Replicas of a new topic."""
    return settings.replication or (1 if settings.kafka is None else min(3, brokers))


def ensure(settings: Settings) -> None:
    """Creates the topics that are missing. Raises Problem if Kafka cannot be reached or has them in another shape."""
    admin = TopicAdmin(settings)
    try:
        brokers = admin.brokers(TIMEOUT_SECONDS if settings.kafka is None else 10.0)
        existing = admin.partitions()
    except NotDone as error:
        raise Problem(
            f"Kafka at {settings.bootstrap} does not answer ({error}).",
            "Check the address given with --kafka." if settings.kafka else "See the log of kafka.",
        ) from None
    replication = replication_of(settings, brokers)
    for topic in TOPICS:
        if topic.name in existing:
            _check_partitions(topic, existing[topic.name], settings)
    missing = [topic for topic in TOPICS if topic.name not in existing]
    if missing:
        _create(admin, missing, settings, replication)
    present = [topic for topic in TOPICS if topic.name in existing]
    if present and settings.kafka is None:
        # Brings the limits of the embedded Kafka's topics to what the settings say now.
        admin.configure({topic.name: config_of(topic, settings, replication) for topic in present})


def _check_partitions(topic: Topic, found: int, settings: Settings) -> None:
    wanted = partitions_of(topic, settings)
    if found == wanted:
        return
    place = f"the data folder {settings.data_dir}" if settings.kafka is None else settings.kafka
    raise Problem(
        f"The topic {topic.name} has {found} partitions in {place}, but the settings ask for {wanted}. "
        "The number is fixed when the topics are created.",
        f"Start with --partitions {found}, or with another --data-dir."
        if settings.kafka is None
        else f"Start with --partitions {found}.",
    )


def _create(admin: TopicAdmin, topics: list[Topic], settings: Settings, replication: int) -> None:
    shapes = [
        TopicShape(topic.name, partitions_of(topic, settings), replication, config_of(topic, settings, replication))
        for topic in topics
    ]
    try:
        admin.create(shapes)
    except NotDone as error:
        raise Problem(
            f"A topic could not be created in Kafka at {settings.bootstrap}: {error}.",
            "Check the rights of this client and the number of brokers (replication).",
        ) from None
