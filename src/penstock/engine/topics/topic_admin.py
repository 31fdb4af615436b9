"""What `penstock topics` does: looks at the topics, and creates, configures or widens them where it is told to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.contract.topics import EVENTS, TOPICS
from penstock.engine.topics import installation_state, setup
from penstock.engine.topics.sizing import keeps_order, obstacles, wanted_replication
from penstock.kafka.admin import FoundTopic, TopicAdmin, TopicShape
from penstock.kafka.clients import topic_name
from penstock.runtime.errors import UserError
from penstock.settings import Settings

# Where topics are not as they should be, and what to do about each difference. Pure.

REASSIGN = "move it with Kafka's kafka-reassign-partitions: a client cannot"
CONFIGURE = "penstock topics --configure"


@dataclass(frozen=True)
class TopicDifference:
    """One thing that is not as it should be."""

    topic: str
    """By its name in Kafka."""
    what: str
    """`topic`, `partitions`, `replication`, or a setting of the topic."""
    found: str
    wanted: str
    remedy: str
    harmful: bool = False
    """Whether events or routes could be lost, so that nothing starts on it."""

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.topic}: {self.what} is {self.found}, should be {self.wanted}; {self.remedy}"


def differences(
    shapes: Iterable[TopicShape], found: Mapping[str, FoundTopic], configs: Mapping[str, Mapping[str, str]]
) -> list[TopicDifference]:
    """How the topics differ from what is wanted. All are named as in Kafka."""
    return [
        difference
        for shape in shapes
        for difference in _of_topic(shape, found.get(shape.name), configs.get(shape.name, {}))
    ]


def _of_topic(shape: TopicShape, found: FoundTopic | None, config: Mapping[str, str]) -> Iterator[TopicDifference]:
    if found is None:
        yield TopicDifference(shape.name, "topic", "missing", "there", "penstock topics --create")
        return
    if found.partitions != shape.partitions:
        more = found.partitions < shape.partitions
        remedy = f"penstock topics --partitions {shape.partitions}" if more else f"set partitions={found.partitions}"
        yield TopicDifference(shape.name, "partitions", str(found.partitions), str(shape.partitions), remedy)
    if found.replication < shape.replication:
        yield TopicDifference(shape.name, "replication", str(found.replication), str(shape.replication), REASSIGN)
    for name, wanted in shape.config.items():
        if name in config and config[name] != wanted:
            harmful = name == "cleanup.policy"
            yield TopicDifference(shape.name, name, config[name], wanted, CONFIGURE, harmful)


SETTLE_SECONDS = 5.0
HOURS_MS = 3600 * 1000
MIB = 2**20


@dataclass(frozen=True)
class TopicRow:
    """A topic as it is."""

    name: str
    partitions: int
    replicas: int
    min_insync: str
    retention_ms: str
    retention_bytes: str
    """Of one partition."""
    cleanup: str

    def cells(self) -> tuple[str, ...]:
        """For people."""
        compacted = self.cleanup == "compact"
        hours = "ever" if compacted or int(self.retention_ms) < 0 else f"{int(self.retention_ms) / HOURS_MS:g} h"
        kept = int(self.retention_bytes) * self.partitions // MIB
        size = "" if compacted or kept < 0 else str(kept)
        return self.name, str(self.partitions), str(self.replicas), self.min_insync, hours, size, self.cleanup


@dataclass
class TopicsReport:
    """How the topics are, what was done, and what still differs."""

    topics: list[TopicRow] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    differences: list[TopicDifference] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topics": [asdict(row) for row in self.topics],
            "done": self.done,
            "differences": [one.as_data() for one in self.differences],
        }


def look_after(
    settings: Settings, *, create: bool, configure: bool, partitions: int | None, force: bool
) -> TopicsReport:
    """Does what it is told, then compares. Raises UserError where that cannot be."""
    admin = setup.connect(settings)
    report = TopicsReport()
    with setup.refusals(settings):
        if create:
            made = setup.create_missing(admin, settings, admin.topics())
            report.done += [f"made {topic_name(settings, name)}" for name in made]
        if partitions is not None:
            report.done += _grow(admin, settings, partitions, force=force)
        shapes = _shapes(admin, settings, partitions)
        if configure:
            report.done += _configure(admin, settings, shapes)
        _compare_when_settled(admin, settings, shapes, report)
    return report


def _compare_when_settled(
    admin: TopicAdmin, settings: Settings, shapes: list[TopicShape], report: TopicsReport
) -> None:
    """What was just changed reaches one broker after the other; any of them may be asked."""
    until = time.monotonic() + (SETTLE_SECONDS if report.done else 0.0)
    _compare(admin, settings, shapes, report)
    while report.differences and time.monotonic() < until:
        time.sleep(SETTLE_SECONDS / 20)
        _compare(admin, settings, shapes, report)


def _shapes(admin: TopicAdmin, settings: Settings, partitions: int | None) -> list[TopicShape]:
    replicas = wanted_replication(settings, admin.cluster()).replicas
    return setup.shapes(settings, replicas, partitions)


def _configure(admin: TopicAdmin, settings: Settings, shapes: list[TopicShape]) -> list[str]:
    """Changes only what differs. What would be harmful to nobody is left to who runs Kafka."""
    found = admin.configs(admin.topics())
    changes = {
        shape.name: {name: value for name, value in shape.config.items() if found[shape.name].get(name, value) != value}
        for shape in shapes
        if shape.name in found
    }
    changes = {name: config for name, config in changes.items() if config}
    admin.configure(changes)
    return [f"configured {topic_name(settings, name)}: {', '.join(config)}" for name, config in changes.items()]


def _compare(admin: TopicAdmin, settings: Settings, shapes: list[TopicShape], report: TopicsReport) -> None:
    found = admin.topics()
    configs = admin.configs(found)
    report.topics = [
        _row(topic_name(settings, topic.name), found[topic.name], configs[topic.name])
        for topic in TOPICS
        if topic.name in found
    ]
    names = {topic.name: topic_name(settings, topic.name) for topic in TOPICS}
    report.differences = differences(
        [TopicShape(names[shape.name], shape.partitions, shape.replication, shape.config) for shape in shapes],
        {names[name]: one for name, one in found.items()},
        {names[name]: one for name, one in configs.items()},
    )


def _row(name: str, found: FoundTopic, config: Mapping[str, str]) -> TopicRow:
    return TopicRow(
        name,
        found.partitions,
        found.replication,
        config.get("min.insync.replicas", ""),
        config.get("retention.ms", "-1"),
        config.get("retention.bytes", "-1"),
        config.get("cleanup.policy", ""),
    )


def _grow(admin: TopicAdmin, settings: Settings, wanted: int, *, force: bool) -> list[str]:
    """Makes partitions, those of the events last: then there is a place for all that is made of an event."""
    found = admin.topics()
    wide = [topic.name for topic in TOPICS if topic.per_partition]
    if missing := [name for name in wide if name not in found]:
        raise UserError(
            f"The topic {topic_name(settings, missing[0])} is missing.", "Create it first: penstock topics --create"
        )
    if too_wide := [name for name in wide if found[name].partitions > wanted]:
        name, has = topic_name(settings, too_wide[0]), found[too_wide[0]].partitions
        raise UserError(f"The topic {name} has {has} partitions; Kafka cannot reduce them.", exit_code=2)
    narrow = [name for name in wide if found[name].partitions < wanted]
    if not narrow:
        return []
    width = found[EVENTS].partitions
    if not force:
        _check_order(settings, width)
    before = admin.ends(EVENTS, list(range(width)), 10.0)
    admin.grow({name: wanted for name in narrow if name != EVENTS})
    admin.grow({name: wanted for name in narrow if name == EVENTS})
    done = [
        f"{topic_name(settings, name)} has {wanted} partitions now, before {found[name].partitions}" for name in narrow
    ]
    if not force and keeps_order(installation_state.routes(settings).values()):
        done += _came_meanwhile(before, admin.ends(EVENTS, list(range(width)), 10.0))
    return [
        *done,
        f"set partitions={wanted} for all that you start from now on; a pipeline that runs starts again itself",
    ]


def _check_order(settings: Settings, partitions: int) -> None:
    routes = installation_state.routes(settings)
    if not keeps_order(routes.values()):
        return
    found = obstacles(
        routes, installation_state.instances(settings, "ingress"), installation_state.standings(settings, partitions)
    )
    if found:
        raise UserError(
            "Some routes keep the order of events by key, and more partitions move keys to other partitions. So "
            "no deliveries may be in progress:\n" + "\n".join(found),
            "Wait and retry; or use --force, after which events of a key may be delivered out of order once.",
        )


def _came_meanwhile(before: Mapping[int, int], after: Mapping[int, int]) -> list[str]:
    """Somebody began to store events in this very moment."""
    grown = [str(partition) for partition, end in before.items() if after.get(partition, end) != end]
    if not grown:
        return []
    return [f"events came in meanwhile (partitions {', '.join(grown)}): the order of their keys is not certain"]
