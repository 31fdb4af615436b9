"""Where topics are not as they should be, and what to do about each difference. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.kafka.admin import FoundTopic, TopicShape

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
