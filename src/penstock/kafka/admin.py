"""Administration of topics, as blocking calls, and a probe of whether Kafka responds. Topics are named as in the
contract."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from penstock.contract.topics import TOPICS
from penstock.kafka import clients
from penstock.kafka.clients import AUTHORIZATION_ERRORS, UnusableConf, describe_error, root_cause
from penstock.settings import Settings

TIMEOUT_SECONDS = 30.0
SCRAM_ITERATIONS = 4096
"""Kafka takes no fewer."""
REMEMBERED_ERRORS = 20
"""Errors of the client that are remembered, to explain why a request had no response."""


class NotDone(RuntimeError):
    """Kafka did not respond, or refused. The text is Kafka's, with the setting to check if there is one."""


@dataclass(frozen=True)
class TopicShape:
    """How a topic is to be created."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it is."""

    partitions: int
    replication: int
    """That of the partition with the fewest replicas."""


@dataclass(frozen=True)
class Brokers:
    """What is known about the size of a cluster."""

    alive: frozenset[int]
    named: frozenset[int] = frozenset()
    """Brokers on which any topic has a replica, alive or not."""
    most_replicas: int = 0
    """Of any partition of any topic."""
    configured_replicas: int = 0
    """The default replication factor of internal and other topics; 0 where it cannot be read."""


class TopicAdmin:
    """The topics of a cluster. Every call raises NotDone where Kafka does not do what is requested."""

    def __init__(self, settings: Settings) -> None:
        self._errors: deque[KafkaError] = deque(maxlen=REMEMBERED_ERRORS)
        self._names = {clients.topic_name(settings, topic.name): topic.name for topic in TOPICS}
        self._in_kafka = {ours: theirs for theirs, ours in self._names.items()}
        try:
            self._client = clients.admin(settings, self._errors.append)
        except UnusableConf as error:
            raise NotDone(str(error)) from None
        except KafkaException as error:
            raise NotDone(f"{error.args[0].str()}; look at kafka_conf") from None

    def brokers(self, timeout: float) -> int:
        """Number of brokers, by whichever broker responds: the controller may be down."""
        if not (found := self._metadata(timeout).brokers):
            raise NotDone("it names no broker yet")
        return len(found)

    def cluster(self, timeout: float = TIMEOUT_SECONDS) -> Brokers:
        """The size of the cluster, including brokers that are down."""
        metadata = self._metadata(timeout)
        partitions = [one for topic in metadata.topics.values() for one in topic.partitions.values()]
        alive = frozenset(metadata.brokers)
        return Brokers(
            alive,
            frozenset(broker for one in partitions for broker in one.replicas),
            max((len(one.replicas) for one in partitions), default=0),
            self._configured_replicas(min(alive, default=0), timeout),
        )

    def _configured_replicas(self, broker: int, timeout: float) -> int:
        """0 where this client may not read it."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            [asked] = self._client.describe_configs([resource], request_timeout=timeout).values()
            config = asked.result(timeout + 1)
        except (KafkaException, TimeoutError):
            return 0
        names = ("default.replication.factor", "offsets.topic.replication.factor")
        return max((int(config[name].value or 0) for name in names if name in config), default=0)

    def partitions(self, timeout: float = TIMEOUT_SECONDS) -> dict[str, int]:
        """Number of partitions of each of our topics that exists."""
        return {name: found.partitions for name, found in self.topics(timeout).items()}

    def topics(self, timeout: float = TIMEOUT_SECONDS) -> dict[str, FoundTopic]:
        """Our topics that exist. Raises NotDone for one that exists and may not be described."""
        seen = {name: topic for name, topic in self._metadata(timeout).topics.items() if topic.error is None}
        self._check_hidden([name for name in self._names if name not in seen], timeout)
        found = {}
        for theirs, ours in self._names.items():
            if theirs in seen:
                replicas = [len(place.replicas) for place in seen[theirs].partitions.values()]
                found[ours] = FoundTopic(len(replicas), min(replicas, default=0))
        return found

    def _check_hidden(self, names: list[str], timeout: float) -> None:
        """Raises NotDone for topics without the right to describe them, which a list of all topics leaves out."""
        if not names:
            return
        for name, asked in self._client.describe_topics(TopicCollection(names), request_timeout=timeout).items():
            try:
                asked.result(timeout + 1)
            except KafkaException as error:
                if error.args[0].code() in AUTHORIZATION_ERRORS:
                    raise NotDone(f"{name}: {describe_error(error.args[0])}") from None
            except TimeoutError as error:
                raise self._not_done(error) from error

    def ids(self, names: Iterable[str], timeout: float = TIMEOUT_SECONDS) -> dict[str, str]:
        """Kafka's ids of topics: one that was deleted and created again has another."""
        wanted = [self._in_kafka[name] for name in names]
        asked = self._client.describe_topics(TopicCollection(wanted), request_timeout=timeout)
        return {self._names[name]: str(self._result(one, timeout).topic_id) for name, one in asked.items()}

    def configs(self, names: Iterable[str], timeout: float = TIMEOUT_SECONDS) -> dict[str, dict[str, str]]:
        """All settings of topics, defaults included."""
        resources = [ConfigResource(ResourceType.TOPIC, self._in_kafka[name]) for name in names]
        found = {}
        if resources:
            for resource, asked in self._client.describe_configs(resources, request_timeout=timeout).items():
                entries = self._result(asked, timeout)
                found[self._names[resource.name]] = {name: str(entry.value) for name, entry in entries.items()}
        return found

    def ends(self, topic: str, partitions: list[int], timeout: float, *, committed: bool = False) -> dict[int, int]:
        """The offset after the newest record, by partition; or after the last before an open transaction."""
        asked = self._offsets(topic, partitions, OffsetSpec.latest(), timeout, committed=committed)  # type: ignore[no-untyped-call]
        return {number: int(self._result(one, timeout).offset) for number, one in asked}

    def known_ends(self, topic: str, partitions: list[int], timeout: float) -> dict[int, int]:
        """The same of the partitions that have a leader."""
        return self._known(self._offsets(topic, partitions, OffsetSpec.latest(), timeout), timeout)  # type: ignore[no-untyped-call]

    def known_firsts(self, topic: str, partitions: list[int], timeout: float) -> dict[int, int]:
        """The offset of the oldest record, or where it would be, of the partitions that have a leader."""
        return self._known(self._offsets(topic, partitions, OffsetSpec.earliest(), timeout), timeout)  # type: ignore[no-untyped-call]

    def known_since(self, topic: str, partitions: list[int], unix: float, timeout: float) -> dict[int, int]:
        """The offset of the first record that is as young as this, or else the end, of the partitions that have a
        leader."""
        spec = OffsetSpec.for_timestamp(int(unix * 1000))
        found = self._known(self._offsets(topic, partitions, spec, timeout), timeout)
        older = [partition for partition, offset in found.items() if offset < 0]
        ends = self.known_ends(topic, older, timeout) if older else {}
        return {partition: offset for partition, offset in (found | ends).items() if offset >= 0}

    def _known(self, asked: Iterable[tuple[int, Future[Any]]], timeout: float) -> dict[int, int]:
        found, problem = {}, None
        for number, one in asked:
            try:
                found[number] = int(self._result(one, timeout).offset)
            except NotDone as error:
                problem = error
        if problem is not None and not found:
            raise problem
        return found

    def _offsets(
        self, topic: str, partitions: list[int], spec: OffsetSpec, timeout: float, *, committed: bool = False
    ) -> Iterator[tuple[int, Future[Any]]]:
        wanted = {TopicPartition(self._in_kafka[topic], partition): spec for partition in partitions}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        offsets = self._client.list_offsets(wanted, isolation_level=isolation, request_timeout=timeout)
        for place, asked in offsets.items():
            yield place.partition, asked

    def create(self, topics: list[TopicShape]) -> None:
        """Creates the topics; one that exists already is left unchanged."""
        wanted = [
            NewTopic(
                self._in_kafka[topic.name],
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
                    raise NotDone(f"{name}: {describe_error(error.args[0])}") from error
            except TimeoutError as error:
                raise self._not_done(error) from error

    def delete(self, names: Iterable[str]) -> None:
        """Deletes topics with all their records; those that do not exist are ignored."""
        wanted = [self._in_kafka[name] for name in names]
        for name, deleted in self._client.delete_topics(wanted, operation_timeout=TIMEOUT_SECONDS).items():
            try:
                deleted.result(TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise NotDone(f"{name}: {describe_error(error.args[0])}") from error
            except TimeoutError as error:
                raise self._not_done(error) from error

    def grow(self, partitions: Mapping[str, int]) -> None:
        """Adds partitions to topics, up to these numbers."""
        wanted = [NewPartitions(self._in_kafka[name], count) for name, count in partitions.items()]
        if wanted:
            for asked in self._client.create_partitions(wanted, operation_timeout=TIMEOUT_SECONDS).values():
                self._result(asked, TIMEOUT_SECONDS)

    def configure(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Sets these configurations of topics; others stay unchanged."""
        changes = [
            ConfigResource(
                ResourceType.TOPIC,
                self._in_kafka[topic],
                incremental_configs=[
                    ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                    for name, value in config.items()
                ],
            )
            for topic, config in configs.items()
        ]
        if changes:
            for altered in self._client.incremental_alter_configs(changes).values():
                self._result(altered, TIMEOUT_SECONDS)

    def set_password(self, user: str, password: str) -> None:
        """Sets the password of a user of the embedded Kafka. It is random, so more iterations would only cost time."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
        change: UserScramCredentialAlteration = UserScramCredentialUpsertion(user, credential, password.encode())
        for done in self._client.alter_user_scram_credentials([change]).values():
            self._result(done, TIMEOUT_SECONDS)

    def _metadata(self, timeout: float) -> ClusterMetadata:
        try:
            return self._client.list_topics(timeout=timeout)
        except KafkaException as error:
            raise self._not_done(error) from error

    def _result(self, asked: Future[Any], timeout: float) -> Any:
        try:
            return asked.result(timeout + 1)
        except (KafkaException, TimeoutError) as error:
            raise self._not_done(error) from error

    def _not_done(self, error: BaseException) -> NotDone:
        """The exception to raise. Without a response, errors of the client's connections explain why."""
        problem = error.args[0] if isinstance(error, KafkaException) and error.args else None
        if problem is None or problem.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            self._client.poll(0)
            problem = root_cause(self._errors) or problem
        return NotDone(describe_error(problem) if problem is not None else f"{type(error).__name__}: {error}")


RESPONSE_SECONDS = 2.0
FRESH_SECONDS = 2.0
"""How long a result is cached: there are several callers, and their probes must not become load."""


class KafkaProbe:
    """Whether Kafka responds, for `/readyz` of roles that rarely use Kafka. Asks at most every two seconds;
    thread-safe."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[Settings], TopicAdmin] = TopicAdmin,
    ) -> None:
        self._settings, self._clock, self._connect = settings, clock, connect
        self._lock = threading.Lock()
        self._admin: TopicAdmin | None = None
        self._asked = float("-inf")
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why Kafka is unreachable; None where it responds."""
        with self._lock:
            if self._clock() - self._asked >= FRESH_SECONDS:
                self._problem = self._ask()
                self._asked = self._clock()
            return self._problem

    def _ask(self) -> str | None:
        # A client that got no response may have lost all brokers for good: the next request uses a new one.
        admin, self._admin = self._admin or self._connect(self._settings), None
        try:
            admin.brokers(RESPONSE_SECONDS)
        except NotDone as error:
            return f"Kafka at {self._settings.bootstrap} does not respond ({error})"
        self._admin = admin
        return None
