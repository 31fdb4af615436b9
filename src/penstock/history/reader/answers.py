"""What questions are answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal


@dataclass(frozen=True)
class Event:
    """An event as it was accepted."""

    partition: int
    offset: int
    arrival: datetime
    target: str
    id: str
    source: str
    type: str
    specversion: str
    subject: str | None
    time: str | None
    dataschema: str | None
    datacontenttype: str | None
    extensions: dict[str, str]
    data: bytes | None
    traceparent: str | None

    @property
    def trace(self) -> str | None:
        """Id of its trace."""
        return self.traceparent[3:35] if self.traceparent else None


@dataclass(frozen=True)
class Attempt:
    """A delivery attempt, and what followed."""

    partition: int
    offset: int
    record: int
    route: str
    kind: str | None
    namespace: str | None
    name: str | None
    stage: str
    attempt: int
    destination: str
    start: datetime
    duration: float
    status: int | None
    result: str
    reason: str | None
    due: datetime | None

    @property
    def end(self) -> datetime:
        """When the answer was there, or was no longer waited for."""
        return self.start + timedelta(seconds=self.duration)

    @property
    def succeeded(self) -> bool:
        """Whether the destination took the event."""
        return self.result in ("delivered", "replied")


@dataclass(frozen=True)
class Traced:
    """What happened to one event: its attempts in the order of time, and the events that were made of it."""

    event: Event
    attempts: tuple[Attempt, ...] = ()
    children: tuple[Traced, ...] = ()
    """Events of the same trace that arrived while it was delivered: replies, and what went on to another Broker."""


Outcome = Literal["dead-lettered", "dropped", "waiting"]
"""Dead-lettered, dropped, or the dead letter sink is still being tried."""


@dataclass(frozen=True)
class DeadLetter:
    """An event that a route was given up for: its last attempt at the subscriber or the reply, and what came then."""

    partition: int
    offset: int
    id: str
    source: str
    type: str
    route: str
    """uid of the Trigger or Subscription."""
    kind: str | None
    namespace: str | None
    name: str | None
    at: datetime
    """When the last attempt began."""
    attempts: int
    """How many attempts were made in that stage."""
    destination: str
    status: int | None
    reason: str | None
    outcome: Outcome


@dataclass(frozen=True)
class DeadLetterCount:
    """How much was given up for one route and one reason."""

    route: str
    kind: str | None
    namespace: str | None
    name: str | None
    reason: str | None
    outcome: Outcome
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class TableState:
    """How far a table has got."""

    name: str
    version: int | None
    """Version of the Delta table; None where there is none yet."""
    files: int
    bytes: int
    days: tuple[str, ...]
    positions: dict[int, int] = field(default_factory=dict)
    """First offset of each partition that the table does not have."""
    behind: int | None = None
    """Records of Kafka that the table does not have; None where Kafka does not answer."""
