"""Creating penstock's topics as the contract shapes them, and keeping their limits as the settings say.

Sizes are decided here, purely, and applied by a thin edge. Creating is idempotent. Another number of partitions than
the settings say is refused with a message: more of them are made by a command of its own.
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
"""Segments a partition is divided into: retention removes whole ones, so more of them waste less."""
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


def check_security(settings: Settings) -> None:
    """The embedded Kafka has credentials of its own; those of `kafka_conf` are for another one."""
    if settings.kafka is None and "security.protocol" in settings.kafka_conf:
        raise UserError(
            "kafka_conf has a security.protocol, but the embedded Kafka has its own.",
            "Set --kafka to use another Kafka, or remove kafka_conf.",
        )


def shapes(settings: Settings, replication: int, partitions: int | None = None) -> list[TopicShape]:
    """All topics as they should be; with another number of partitions where one is given."""
    wanted = settings if partitions is None else settings.model_copy(update={"partitions": partitions})
    return [
        TopicShape(topic.name, partitions_of(topic, wanted), replication, config_of(topic, wanted, replication))
        for topic in TOPICS
    ]


def ensure(settings: Settings) -> None:
    """Creates the topics that are missing. Raises UserError if Kafka cannot be reached or has them in another shape."""
    admin = connect(settings)
    with refusals(settings):
        existing = admin.topics()
        for topic in TOPICS:
            if topic.name in existing:
                _check_partitions(topic, existing[topic.name].partitions, settings)
        create_missing(admin, settings, existing)
        present = [topic for topic in TOPICS if topic.name in existing]
        if settings.kafka is None:
            # Brings the limits of the embedded Kafka's topics to what the settings say now.
            held = _held(admin, present)
            admin.configure(
                {topic.name: config_of(topic, settings, 1) | (FOR_EVER if topic in held else {}) for topic in present}
            )
        else:
            _check_cleanup(admin, settings, present)


def hold_events(settings: Settings) -> None:
    """Has the embedded Kafka remove nothing for its age any more, until `penstock topics --configure`. Raises
    NotDone."""
    admin = TopicAdmin(settings)
    there = admin.topics()
    admin.configure({topic.name: FOR_EVER for topic in TOPICS if topic.cleanup == "delete" and topic.name in there})


def _held(admin: TopicAdmin, present: list[Topic]) -> list[Topic]:
    """Those of which nothing is to be removed for its age until a person says so."""
    configs = admin.configs([topic.name for topic in present])
    kept = FOR_EVER["retention.ms"]
    return [one for one in present if one.cleanup == "delete" and configs[one.name].get("retention.ms") == kept]


def connect(settings: Settings) -> TopicAdmin:
    """A client of a Kafka that answers. Raises UserError."""
    with refusals(settings):
        admin = TopicAdmin(settings)
        admin.brokers(TIMEOUT_SECONDS if settings.kafka is None else 10.0)
        return admin


@contextmanager
def refusals(settings: Settings) -> Iterator[None]:
    """What Kafka does not do becomes a UserError that says which setting to look at."""
    try:
        yield
    except NotDone as error:
        raise UserError(
            f"Kafka at {settings.bootstrap} is unreachable or refused the request: {error}.",
            "" if settings.kafka else "See the log of the component kafka.",
        ) from None


def create_missing(admin: TopicAdmin, settings: Settings, existing: Container[str]) -> list[str]:
    """Makes the topics that are not there, and returns their names.

    Raises UserError where brokers are away: topics that are made now would for ever be on fewer than are there later.
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
    """A table that is cleaned by age forgets routes; events that are compacted are gone before they are delivered."""
    configs = admin.configs([topic.name for topic in topics])
    for topic in topics:
        found = configs[topic.name].get("cleanup.policy", topic.cleanup)
        if found != topic.cleanup:
            raise UserError(
                f"The topic {topic_name(settings, topic.name)} has cleanup.policy {found}, which deletes records that "
                f"penstock needs; it must be {topic.cleanup}.",
                "Fix it: penstock topics --configure",
            )


def adopted(settings: Settings) -> Settings:
    """The settings with as many partitions as there are, where that is more than they say: somebody has made more.

    Returns them as they are while Kafka cannot be reached.
    """
    if not _reached(settings):
        return settings
    try:
        found = TopicAdmin(settings).partitions(ASK_SECONDS).get(EVENTS, 0)
    except NotDone:
        return settings
    if found <= settings.partitions:
        return settings
    log.info("the topics have more partitions than the settings say", found=found, settings=settings.partitions)
    return settings.model_copy(update={"partitions": found})


def _reached(settings: Settings) -> bool:
    """Whether anybody listens at the first address: a client of Kafka takes seconds to find out that nobody does."""
    host, _, port = settings.bootstrap.partition(",")[0].rpartition(":")
    try:
        socket.create_connection((host, int(port)), ASK_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def _check_partitions(topic: Topic, found: int, settings: Settings) -> None:
    """More than the settings say are taken in a given Kafka: they were made by `penstock topics`."""
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
