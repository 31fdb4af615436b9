"""Kafka clients as penstock has them of confluent_kafka: what lies between a process and the brokers.

A request takes a while; it, or the answer to it, may get lost, and is sent again where librdkafka would: an idempotent
producer writes nothing twice and nothing out of order, another one may. What a process has handed over and not sent
dies with it, but for what was on its way. It is the thread that calls which waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    PartitionMetadata,
    TopicMetadata,
)

from tests.simulation.sim_kafka import FencedProducer, Headers, Partition, Record, SimKafka
from tests.simulation.sim_machine import PROCESS, Process, Strand, current, pause, wait

PATIENCE = {"follower": 30.0, "tail": 30.0, "claims": 1.0}
"""Seconds that consumers of some roles wait for something to come. They are asked to wait for a fraction of a second,
again and again, only so that they notice when they are to end, or when it is time to write."""
RETRY_SECONDS = 0.1
MESSAGE_SECONDS = 300.0
"""After which a record that is not written is given up, where nothing else is asked for."""


def problem(code: int, **kinds: bool) -> KafkaException:
    """What librdkafka would raise."""
    return KafkaException(KafkaError(code, f"simulated {code}", **kinds))


class Message:
    """A record, or the end of a partition."""

    __slots__ = ("_error", "_partition", "_record")

    def __init__(self, partition: Partition, record: Record, error: KafkaError | None = None) -> None:
        self._partition, self._record, self._error = partition, record, error

    def topic(self) -> str:
        return self._partition.topic.name

    def partition(self) -> int:
        return self._partition.number

    def offset(self) -> int:
        return self._record.offset

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def headers(self) -> Headers | None:
        return self._record.headers

    def timestamp(self) -> tuple[int, int]:
        return 1, self._record.at

    def error(self) -> KafkaError | None:
        return self._error


class _Client:
    """What all have in common."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._machine, self._process = current(), PROCESS.get()
        self._kafka: SimKafka = self._machine.kafka
        self._chance = self._kafka.chance_of_clients
        self._role = str(config.get("client.id", "")).rpartition("-")[2]

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        self._ask(timeout)
        metadata = ClusterMetadata()
        metadata.brokers = {1: object()}  # type: ignore[dict-item]
        for name, found in self._kafka.topics.items():
            if topic in (None, name):
                metadata.topics[name] = described = TopicMetadata()
                for partition in found.partitions:
                    described.partitions[partition.number] = place = PartitionMetadata()
                    place.leader, place.replicas = 1, [1]
        return metadata

    def _ask(self, timeout: float) -> None:
        """Returns when the brokers have answered a question. Raises KafkaException where they do not in time."""
        until = self._machine.now + (timeout if timeout >= 0 else 60.0)
        if self._chance.random() < 0.2:  # each time would take long, and show no more
            pause(self._chance.uniform(0.0005, 0.01))
        while self._kafka.away or self._kafka.loses_message():
            if self._machine.now >= until:
                raise problem(KafkaError._TIMED_OUT, retriable=True)
            pause(min(RETRY_SECONDS, until - self._machine.now))


class _Sending:
    """A record that was handed to a producer."""

    __slots__ = ("deadline", "headers", "key", "tell", "value", "written")

    def __init__(
        self, key: bytes | None, value: bytes | None, headers: Headers | None, deadline: float, tell: Any
    ) -> None:
        self.key, self.value, self.headers, self.deadline, self.tell = key, value, headers, deadline, tell
        self.written: int | None = None
        """Its offset, where it was written and the answer got lost."""


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


class Producer(_Client):
    """As `confluent_kafka.Producer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._ident: str = config.get("transactional.id", "")
        self._idempotent = bool(config.get("enable.idempotence") or self._ident)
        given = config.get("message.timeout.ms", config.get("delivery.timeout.ms"))
        timeout = config.get("transaction.timeout.ms", MESSAGE_SECONDS * 1000) if given is None else given
        self._seconds, self._linger = int(timeout) / 1000, float(config.get("linger.ms", 5)) / 1000
        self._queues: dict[Partition, deque[_Sending]] = {}
        self._told: deque[tuple[Any, KafkaError | None, Message]] = deque()
        """What is called when it is polled."""
        self._waiting: deque[Strand] = deque()
        self._is_pumping = self._in_transaction = False
        self._epoch = 0
        self._problem: KafkaException | None = None
        """Why the transaction cannot be committed."""
        if self._process is not None:
            self._process.at_end.append(self._die)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + len(self._told)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        on_delivery: Callable[..., None] | None = None,
        headers: Any = None,
    ) -> None:
        if self._process is not None and self._process.ended:
            return
        number = self._kafka.place(topic, _bytes(key), self._chance) if partition < 0 else partition
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        pairs = None if pairs is None else [(name, _bytes(text)) for name, text in pairs]
        sending = _Sending(_bytes(key), _bytes(value), pairs, self._machine.now + self._seconds, on_delivery)
        self._queues.setdefault(self._kafka.partition(topic, number), deque()).append(sending)
        # In a transaction nobody waits for the rest: the commit sends it.
        self._pump_after(self._chance.uniform(0.0005, 0.005) + (0 if self._ident else self._linger))

    def poll(self, timeout: float = 0) -> int:
        count = len(self._told)
        for _ in range(count):
            tell, error, message = self._told.popleft()
            tell(error, message)
        return count

    def flush(self, timeout: float = -1) -> int:
        until = self._machine.now + (timeout if timeout >= 0 else MESSAGE_SECONDS)
        self.poll()
        while any(self._queues.values()) and self._machine.now < until:
            wait(self._waiting, until - self._machine.now)
            self.poll()
        return len(self)

    def purge(self) -> None:
        self._queues.clear()

    def close(self) -> None:
        self.purge()

    # --- transactions --------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float) -> None:
        self._ask(timeout)
        began = self._process.began if self._process is not None else 0.0
        self._epoch = self._kafka.open_transactions(self._ident, self._seconds, began)

    def begin_transaction(self) -> None:
        self._problem, self._in_transaction = None, True

    def commit_transaction(self, timeout: float) -> None:
        until = self._machine.now + timeout
        self.flush(timeout)
        if self._problem is not None:
            raise self._problem
        if any(self._queues.values()):
            raise problem(KafkaError._TIMED_OUT, retriable=True)
        self._end_transaction(max(0.0, until - self._machine.now), commit=True)

    def abort_transaction(self, timeout: float) -> None:
        if not self._in_transaction:
            raise problem(KafkaError._STATE)
        self.purge()
        self._end_transaction(timeout, commit=False)

    def _end_transaction(self, timeout: float, *, commit: bool) -> None:
        self._ask(timeout)
        try:
            self._kafka.end_transaction(self._ident, self._epoch, commit=commit)
        except FencedProducer:
            raise problem(KafkaError._FENCED, fatal=True) from None
        self._ask(timeout)  # the answer may get lost as well
        self._in_transaction = False

    # --- sending -------------------------------------------------------------------------------------------------

    def _pump_after(self, seconds: float) -> None:
        if not self._is_pumping:
            self._is_pumping = True
            self._machine.loop.call_later(seconds, self._pump)  # as the process: one that is frozen sends nothing

    def _pump(self) -> None:
        self._is_pumping = False
        for partition, queue in self._queues.items():
            left: deque[_Sending] = deque()
            while queue and not (left and self._idempotent):  # or something would overtake it
                sending = queue.popleft()
                if not self._send(partition, sending):
                    left.append(sending)
            queue.extendleft(reversed(left))
        if any(self._queues.values()):
            self._pump_after(RETRY_SECONDS)
        for thread in self._waiting:
            thread.wake()

    def _send(self, partition: Partition, sending: _Sending) -> bool:
        """Whether nothing more is to be done about it."""
        if self._machine.now >= sending.deadline:
            self._fail(partition, sending, problem(KafkaError._MSG_TIMED_OUT, txn_requires_abort=bool(self._ident)))
            return True
        if not self._kafka.takes_records(partition) or self._kafka.loses_message():
            return False
        try:
            self._write(partition, sending)
        except FencedProducer:
            self._fail(partition, sending, problem(KafkaError._FENCED, fatal=True))
            return True
        if self._kafka.loses_message():
            return False
        self._tell(partition, sending, None)
        return True

    def _write(self, partition: Partition, sending: _Sending) -> None:
        if sending.written is not None and self._idempotent:
            return
        if self._ident:
            ident = self._ident, self._epoch
            sending.written = self._kafka.append_in_transaction(*ident, partition, sending.key, sending.value)
        else:
            sending.written = self._kafka.append(partition, sending.key, sending.value, sending.headers)

    def _fail(self, partition: Partition, sending: _Sending, error: KafkaException) -> None:
        self._problem = self._problem or error
        self._tell(partition, sending, error.args[0])

    def _tell(self, partition: Partition, sending: _Sending, error: KafkaError | None) -> None:
        if sending.tell is not None:
            offset = -1 if sending.written is None else sending.written
            record = Record(offset, 0, sending.key, sending.value, sending.headers)
            self._told.append((sending.tell, error, Message(partition, record)))

    def _die(self, _: Process) -> None:
        """Some of what was on its way arrives all the same."""
        for partition, queue in self._queues.items():
            arriving = self._chance.choice([0, 1, 2])
            while arriving and queue and self._kafka.takes_records(partition):
                arriving -= 1
                try:
                    self._write(partition, queue.popleft())
                except FencedProducer:
                    return


class Consumer(_Client):
    """As `confluent_kafka.Consumer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._tells_end = bool(config.get("enable.partition.eof"))
        self._places: dict[Partition, int] = {}
        self._ended: dict[Partition, int] = {}
        """Where the end was last told."""

    def assign(self, places: list[TopicPartition]) -> None:
        self._ended.clear()
        self._places.clear()
        for place in places:
            partition = self._kafka.partition(place.topic, place.partition)
            self._places[partition] = partition.first if place.offset == OFFSET_BEGINNING else place.offset

    def unassign(self) -> None:
        self._places.clear()

    def close(self) -> None:
        self._places.clear()

    def poll(self, timeout: float = -1) -> Message | None:
        patience = PATIENCE.get(self._role, timeout if timeout >= 0 else MESSAGE_SECONDS) if timeout else 0.0
        until = self._machine.now + patience
        found = self._next()
        while found is None and self._machine.now < until:
            woken = self._wait(until - self._machine.now)
            found = self._next()
            if woken and found is None and self._role in PATIENCE:
                break  # an event was set: it may be the one that ends this thread
        return found

    def _wait(self, seconds: float) -> bool:
        thread = self._machine.thread
        if thread is None:
            raise AssertionError("the event loop must not wait")
        if self._kafka.away or self._machine.now < self._kafka.unreliable_until:
            seconds = min(seconds, RETRY_SECONDS)
        for partition in self._places:
            partition.waiting.append(thread)
        polling = self._process.polling if self._process is not None and self._role in PATIENCE else deque[Strand]()
        try:
            return wait(polling, seconds)
        finally:
            for partition in self._places:
                if thread in partition.waiting:
                    partition.waiting.remove(thread)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        found: list[Message] = []
        while len(found) < num_messages and (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        if self._kafka.away or self._kafka.loses_message():
            return None
        for partition, place in list(self._places.items()):
            if not partition.first <= place <= partition.end:  # where `auto.offset.reset` says
                self._places[partition] = partition.first
            record = next(partition.read(self._places[partition]), None)
            if record is not None:
                self._places[partition] = record.offset + 1
                self._ended.pop(partition, None)
                return Message(partition, record)
            stable = partition.stable
            self._places[partition] = max(self._places[partition], stable)
            if self._tells_end and self._ended.get(partition) != stable:
                self._ended[partition] = stable
                end = KafkaError(KafkaError._PARTITION_EOF)
                return Message(partition, Record(stable, 0, None, None, None), end)
        return None

    def get_watermark_offsets(self, place: TopicPartition, timeout: float = -1) -> tuple[int, int]:
        self._ask(timeout)
        partition = self._kafka.partition(place.topic, place.partition)
        return partition.first, partition.stable

    def offsets_for_times(self, places: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        self._ask(timeout)
        found = []
        for place in places:
            records = self._kafka.partition(place.topic, place.partition).records
            offset = next((record.offset for record in records if record.at >= place.offset), -1)
            found.append(TopicPartition(place.topic, place.partition, offset))
        return found


class _Answer:
    """What a question to the brokers gives, when it is asked for."""

    def __init__(self, ask: Callable[[float], None], look: Callable[[], object]) -> None:
        self._ask, self._look = ask, look

    def result(self, timeout: float) -> object:
        self._ask(timeout)
        return self._look()


class _Described:
    """A topic."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id


class _Offset:
    """A place in a partition."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class AdminClient(_Client):
    """As `confluent_kafka.admin.AdminClient`, as far as penstock's processes ask it anything."""

    def describe_topics(self, names: Any, request_timeout: float) -> dict[str, _Answer]:
        def look(name: str) -> _Described:
            return _Described(self._kafka.topics[name].ident)

        return {name: _Answer(self._ask, partial(look, name)) for name in names.topic_names}

    def list_offsets(
        self, places: Mapping[TopicPartition, OffsetSpec], request_timeout: float, isolation_level: Any = None
    ) -> dict[TopicPartition, _Answer]:
        earliest = type(OffsetSpec.earliest())  # type: ignore[no-untyped-call]

        def look(place: TopicPartition, wanted: OffsetSpec) -> _Offset:
            partition = self._kafka.partition(place.topic, place.partition)
            if isinstance(wanted, earliest):
                return _Offset(partition.first)
            return _Offset(partition.stable if isolation_level == IsolationLevel.READ_COMMITTED else partition.end)

        return {place: _Answer(self._ask, partial(look, place, wanted)) for place, wanted in places.items()}

    def describe_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, _Answer]:
        def look(name: str) -> dict[str, ConfigEntry]:
            return {option: ConfigEntry(option, value) for option, value in self._kafka.topics[name].config.items()}

        return {resource: _Answer(self._ask, partial(look, resource.name)) for resource in resources}

    def poll(self, timeout: float) -> int:
        return 0
