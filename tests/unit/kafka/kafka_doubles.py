"""Doubles of confluent_kafka's clients and messages, for readers that meet what a real Kafka seldom gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError


@dataclass
class MessageDouble:
    """A record, or an error in its place."""

    at: int = 0
    named: bytes | None = b"key"
    content: bytes | None = b"{}"
    head: Sequence[tuple[str, bytes]] = ()
    problem: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.problem

    def topic(self) -> str:
        return "topic"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.named

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> Sequence[tuple[str, bytes]]:
        return self.head

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000


class ConsumerDouble:
    """Gives the messages one by one; what is an exception is raised."""

    def __init__(self, *queued: MessageDouble | Exception) -> None:
        self._queued = list(queued)
        self.closed = False
        self.end = 2**62

    def get_watermark_offsets(self, *_: object, timeout: float) -> tuple[int, int]:
        """Where the topic begins and ends."""
        return 0, self.end

    def poll(self, _: float) -> Any:
        if not self._queued:
            return None
        found = self._queued.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def consume(self, _count: int, _timeout: float) -> list[Any]:
        return []

    def list_topics(self, *_: object) -> None:
        """It knows every topic."""

    def assign(self, _: object) -> None:
        """It reads what is queued."""

    def unassign(self) -> None:
        """It reads what is queued."""

    def close(self) -> None:
        self.closed = True


class BatchConsumerDouble(ConsumerDouble):
    """Gives as many messages at once as it is asked for, and remembers how many that were."""

    def __init__(self, *queued: MessageDouble | Exception) -> None:
        super().__init__(*queued)
        self.asked: list[int] = []

    def consume(self, count: int, timeout: float) -> list[Any]:
        self.asked.append(count)
        return [found for _ in range(count) if (found := self.poll(timeout)) is not None]
