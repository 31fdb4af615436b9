"""What a delivery takes along into its next stage: the reply to be sent, or the story of its failure.

Kept in `penstock.cursors` beside the cursor, under its own key, so that a restart goes on in the same stage and
cursors stay small.
"""

from __future__ import annotations

import msgspec

from penstock.events.event import CloudEvent

OVERHEAD_BYTES = 512


class Failure(msgspec.Struct, frozen=True):
    """Why a delivery was given up, kept until the dead letter sink has it."""

    dest: str
    """URL that failed: the subscriber's, or the reply's."""
    code: int
    data: str
    subscriber: str
    reason: str
    attempts: int


class StagePayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Exactly one of both is there."""

    attributes: dict[str, str] | None = None
    """Attributes of the reply."""
    data: bytes | None = None
    passed: list[tuple[str, str]] = []
    """HTTP headers that go along with the reply."""
    failure: Failure | None = None

    @property
    def reply(self) -> CloudEvent:
        """The event that the subscriber answered with."""
        return CloudEvent(self.attributes or {}, self.data)

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        attributes = sum(len(name) + len(value) for name, value in (self.attributes or {}).items())
        return OVERHEAD_BYTES + attributes + len(self.data or b"")


_DECODER = msgspec.msgpack.Decoder(StagePayload)


def reply(event: CloudEvent, passed: list[tuple[str, str]]) -> StagePayload:
    """What goes into the reply stage."""
    return StagePayload(attributes=dict(event.attributes), data=event.data, passed=passed)


def encode(payload: StagePayload) -> bytes:
    """The value in the topic."""
    return msgspec.msgpack.encode(payload)


def decode(value: bytes) -> StagePayload:
    """What was written."""
    return _DECODER.decode(value)
