"""What the router writes beside its query: from where routing resumes, fences in `penstock.matched`, and markers in
`penstock.events`.

From where routing resumes is written in transactions with an id that all routers share, so that a router that was
replaced is fenced by Kafka itself: it can record nothing more. Fences cannot be: a transaction would leave holes in
`penstock.matched`. A late fence has a lower number than its successor's and is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.contract import generations, records, reports, topics
from penstock.contract.generations import LivePoint
from penstock.contract.reports import Served
from penstock.kafka import clients
from penstock.kafka.topic_ends import KAFKA_SECONDS, KafkaAway
from penstock.kafka.transactions import Entry, Fenced, TransactionalPartition
from penstock.observability.logs import describe
from penstock.settings import Settings

FENCE_OPTIONS = {
    "linger.ms": 0,
    "delivery.timeout.ms": int(KAFKA_SECONDS * 1000),
    "error_cb": lambda error: None,  # write_fence reports a fence that could not be written
}
TRANSACTION = {"transaction.timeout.ms": 10_000, "linger.ms": 0}
"""Short, because all readers of reports wait for a transaction that is left open."""


class RouterSuperseded(RuntimeError):
    """Another router has taken over: this one must end."""


class FenceWriter:
    """Writes for one router. Used by one thread only."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = clients.topic_name(settings, topics.MATCHED)
        self._notes = TransactionalPartition(settings, "router", 0, TRANSACTION)
        self._producer = self._connect()
        self.take_over = self._notes.open
        """To be called first, and once: from here on no former router can record anything. Waits for Kafka."""
        self.look_after = self._notes.look_after
        """To be called now and then: serves the callbacks of the client."""
        self.stop_waiting = self._notes.stop_waiting
        """To be set when the router ends: ends waiting for Kafka."""
        self.close = self._notes.close

    def note_epoch(self, epoch: int) -> None:
        """Gives this router its epoch. Raises RouterSuperseded."""
        self._commit([Entry(topics.REPORTS, generations.EPOCH_KEY, generations.encode_epoch(epoch))])

    def note_log(self, topic_id: str) -> None:
        """Records the id of the topic whose events are routed. Raises RouterSuperseded."""
        self._commit([Entry(topics.REPORTS, generations.LOG_KEY, generations.encode_log(topic_id))])

    def note(self, point: LivePoint, forget: Iterable[str]) -> None:
        """Records the point from which routing resumes, and removes the keys of former routers. Raises
        RouterSuperseded."""
        noted = Entry(topics.REPORTS, generations.key_of(point.number), generations.encode(point))
        self._commit([noted, *(Entry(topics.REPORTS, key, None) for key in forget)])

    def note_served(self, changes: Mapping[str, Served | None]) -> None:
        """Records which routes are served, or left out from where on; None for one that has ended.

        Raises RouterSuperseded.
        """
        self._commit(
            [
                Entry(topics.REPORTS, reports.served_key(uid), None if served is None else reports.encode(served))
                for uid, served in changes.items()
            ]
        )

    def write_fence(self, point: LivePoint, follows: int) -> None:
        """Writes a generation's fence to every partition: after it, records of lower generations are ignored. Before it
        the generation with the number `follows` counted. Raises KafkaAway."""
        written: set[int] = set()

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition = message.partition()
            if error is None and partition is not None:
                written.add(partition)

        try:
            for partition, start in enumerate(point.start):
                self._producer.produce(
                    self._topic,
                    partition=partition,
                    headers={**fence_headers(point.number, start, follows)},
                    on_delivery=delivered,
                )
            self._producer.flush(KAFKA_SECONDS + 1)
        except (BufferError, KafkaException) as error:
            raise KafkaAway(describe(error)) from error
        if len(written) < len(point.start):
            self._producer = self._connect()  # the former client may have lost Kafka for good
            raise KafkaAway("a fence could not be written")

    def _commit(self, entries: list[Entry]) -> None:
        try:
            self._notes.commit(entries, lambda left, refused: left)
        except Fenced as error:
            raise RouterSuperseded("another pipeline has taken over: only one may route") from error

    def _connect(self) -> Producer:
        return clients.producer(self._settings, "fences", FENCE_OPTIONS, watchdog=None)


def fence_headers(number: int, start: int, follows: int) -> dict[str, bytes]:
    """The headers of a fence: a marker of that generation, so that it is not taken for an event, with the origin before
    its start.

    If there is none before, the fence claims that a part is left, so that no reader takes origin 0 for routed.
    """
    fence = {
        records.FENCE: str(follows).encode(),
        records.MARKER: f"{number}:0:0".encode(),
        records.ORIGIN: str(max(0, start - 1)).encode(),
        records.ROUTES: b"",
        records.GENERATION: str(number).encode(),
    }
    return fence if start > 0 else {**fence, records.PARTS_LEFT: b"1"}


MARKER_OPTIONS = {
    "linger.ms": 0,
    "delivery.timeout.ms": int(KAFKA_SECONDS * 1000),
    "error_cb": lambda error: None,  # write reports a marker that could not be written
}


class MarkerWriter:
    """Writes markers, records without an event, and waits for their confirmation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = clients.topic_name(settings, topics.EVENTS)
        self._producer = self._connect()

    def write(self, markers: Sequence[bytes], partitions: Iterable[int]) -> dict[int, int]:
        """Writes all the markers to each partition; returns the offset of the last one there. Raises KafkaAway."""
        wanted = sorted(partitions)
        offsets: dict[int, int] = {}

        def written(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                offsets[partition] = max(offset, offsets.get(partition, 0))

        try:
            for marker in markers:
                for partition in wanted:
                    self._producer.produce(
                        self._topic, partition=partition, headers={records.MARKER: marker}, on_delivery=written
                    )
            self._producer.flush(KAFKA_SECONDS + 1)
        except (BufferError, KafkaException) as error:
            raise KafkaAway(describe(error)) from error
        if offsets.keys() != set(wanted):
            self._producer = self._connect()  # the former client may have lost Kafka for good
            raise KafkaAway("the markers could not be written")
        return offsets

    def _connect(self) -> Producer:
        return clients.producer(self._settings, "markers", MARKER_OPTIONS, watchdog=None)
