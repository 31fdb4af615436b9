"""What a delivery takes along into its next stage: the reply to be sent, or the description of its failure.

Stored in `penstock.cursors` beside the cursor, under its own key, so that a restart resumes in the same stage and
cursors stay small.
"""

from __future__ import annotations

import msgspec

from penstock.events.event import CloudEvent

OVERHEAD_BYTES = 512


class Failure(msgspec.Struct, frozen=True):
    """Why a delivery failed, kept until the dead letter sink has the event."""

    dest: str
    """URL that failed: the subscriber's, or the reply's."""
    code: int
    data: str
    subscriber: str
    reason: str
    attempts: int


class StagePayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply or a failure, exactly one of them."""

    attributes: dict[str, str] | None = None
    """Attributes of the reply."""
    data: bytes | None = None
    passed: list[tuple[str, str]] = []
    """HTTP headers that are sent with the reply."""
    failure: Failure | None = None

    @property
    def reply(self) -> CloudEvent:
        """The event in the subscriber's response."""
        return CloudEvent(self.attributes or {}, self.data)

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        attributes = sum(len(name) + len(value) for name, value in (self.attributes or {}).items())
        return OVERHEAD_BYTES + attributes + len(self.data or b"")


_DECODER = msgspec.msgpack.Decoder(StagePayload)


def reply_payload(event: CloudEvent, passed: list[tuple[str, str]]) -> StagePayload:
    """The payload of the reply stage."""
    return StagePayload(attributes=dict(event.attributes), data=event.data, passed=passed)


def encode_payload(payload: StagePayload) -> bytes:
    """The value in the topic."""
    return msgspec.msgpack.encode(payload)


def decode_payload(value: bytes) -> StagePayload:
    """The payload of a value in the topic. Raises msgspec's errors."""
    return _DECODER.decode(value)
