"""Writing markers into `penstock.events`: records without an event, into partitions that are named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.contract import headers, topics
from penstock.kafka import clients
from penstock.kafka.topic_ends import KAFKA_SECONDS, KafkaAway
from penstock.observability.logs import describe
from penstock.settings import Settings

OPTIONS = {
    "linger.ms": 0,
    "delivery.timeout.ms": int(KAFKA_SECONDS * 1000),
    "error_cb": lambda error: None,  # a marker that is not written reports that itself
}


class MarkerWriter:
    """Writes markers and waits for them."""

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
                        self._topic, partition=partition, headers={headers.MARKER: marker}, on_delivery=written
                    )
            self._producer.flush(KAFKA_SECONDS + 1)
        except (BufferError, KafkaException) as error:
            raise KafkaAway(describe(error)) from error
        if offsets.keys() != set(wanted):
            self._producer = self._connect()  # whose predecessor may have lost Kafka for good
            raise KafkaAway("the markers could not be written")
        return offsets

    def _connect(self) -> Producer:
        return clients.producer(self._settings, "markers", OPTIONS, watchdog=None)
