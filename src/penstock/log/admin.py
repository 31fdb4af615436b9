"""Looking at topics and making them, as blocking calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.log import clients
from penstock.settings import Settings

TIMEOUT_SECONDS = 30.0


class NotDone(RuntimeError):
    """Kafka did not answer, or refused. The text is Kafka's."""


@dataclass(frozen=True)
class TopicShape:
    """How a topic is made."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


class TopicAdmin:
    """The topics of a cluster. Every call raises NotDone where Kafka does not do what it is asked."""

    def __init__(self, settings: Settings) -> None:
        self._client = clients.admin(settings)

    def brokers(self, timeout: float) -> int:
        """Number of brokers."""
        try:
            return len(self._client.describe_cluster(request_timeout=timeout).result(timeout + 1).nodes)
        except (KafkaException, TimeoutError) as error:
            raise _not_done(error) from error

    def partitions(self, timeout: float = TIMEOUT_SECONDS) -> dict[str, int]:
        """Number of partitions of each topic there is."""
        try:
            found = self._client.list_topics(timeout=timeout).topics
        except KafkaException as error:
            raise _not_done(error) from error
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def ends(self, topic: str, partitions: list[int], timeout: float) -> dict[int, int]:
        """The offset after the newest record, by partition."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}  # type: ignore[no-untyped-call]
        try:
            found = self._client.list_offsets(wanted, request_timeout=timeout)
            return {place.partition: int(asked.result(timeout + 1).offset) for place, asked in found.items()}
        except (KafkaException, TimeoutError) as error:
            raise _not_done(error) from error

    def create(self, topics: list[TopicShape]) -> None:
        """Makes the topics; one that exists already is left as it is."""
        wanted = [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication,
                config=dict(topic.config),
            )
            for topic in topics
        ]
        for name, created in self._client.create_topics(wanted, operation_timeout=TIMEOUT_SECONDS).items():
            try:
                created.result(TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise NotDone(f"{name}: {error.args[0].str()}") from error
            except TimeoutError as error:
                raise _not_done(error) from error

    def configure(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Gives topics these settings; others stay as they are."""
        changes = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                    for name, value in config.items()
                ],
            )
            for topic, config in configs.items()
        ]
        for altered in self._client.incremental_alter_configs(changes).values():
            try:
                altered.result(TIMEOUT_SECONDS)
            except (KafkaException, TimeoutError) as error:
                raise _not_done(error) from error


def _not_done(error: BaseException) -> NotDone:
    problem = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return NotDone(problem.str() if isinstance(problem, KafkaError) else f"{type(error).__name__}: {error}")
