"""The records of `penstock.attempts`: one per delivery attempt, in JSON, for queries about what happened.

It lies in the partition of its event and is committed together with the cursor that it moved.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.contract.unreadable import read_json

Result = Literal["delivered", "replied", "retry", "deadletter", "dropped", "cancelled"]
"""What followed: done, on to the reply, another attempt, on to the dead letter sink, given up, route gone."""


class AttemptRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt."""

    at: float
    """When it began, Unix time in seconds."""
    route: str
    partition: int
    origin: int
    """Offset of the event in the same partition of `penstock.events`."""
    id: str
    source: str
    type: str
    stage: str
    """`subscriber`, `reply` or `deadletter`."""
    attempt: int
    """Counted from 1 in each stage."""
    destination: str
    result: Result
    latency: float
    """Seconds."""
    status: int | None = None
    """HTTP status; absent where no answer came."""
    due: float | None = None
    """When the next attempt is due, Unix time in seconds."""
    reason: str | None = None
    """Why it failed."""
    kind: str = ""
    """`Trigger` or `Subscription`; with namespace and name, what the route was called: it may be gone when one asks."""
    namespace: str = ""
    name: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AttemptRecord)


def encode(attempt: AttemptRecord) -> bytes:
    """The record's value in the topic."""
    return _encoder.encode(attempt)


def decode(value: bytes) -> AttemptRecord:
    """The attempt of a record. Raises Unreadable."""
    return read_json(value, _decoder)
