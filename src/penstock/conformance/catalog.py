"""The thirteen event delivery tests: what each sends and what must be observed, as the document states it.

Times are the gaps to the observation before, in seconds and without the round trip. Penstock's own manifests for the
tests lie in `manifests/`, under the names that the document's commands use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["Received", "Rejected"]

EARLY_SECONDS = 0.1
"""A retry may come this much before its time: clocks are read on two sides."""

LATE_SECONDS = 1.0
"""A retry may come this much after its time: the round trip, which the document wants far below a second."""


@dataclass(frozen=True)
class Expected:
    """One observation at a sink."""

    kind: Kind
    sequence: int
    gap: float | None = None
    """Seconds since the observation before; None for the first one."""


@dataclass(frozen=True)
class Sink:
    """What a sink must have observed, all of it and nothing else."""

    component: str
    observations: tuple[Expected, ...]
    role: Literal["subscriber", "reply", "dead letter"] = "subscriber"
    event_type: str = "com.example.conformance"
    source: str | None = "emitter-conformance"
    """None where the source is the name of the Pod that replied."""
    data: Mapping[str, str] | None = None
    """None where it is the data that the emitter sent."""


@dataclass(frozen=True)
class DeliveryTest:
    """One test of the document."""

    number: str
    name: str
    title: str
    sinks: tuple[Sink, ...]
    settle: float = 3.0
    """Seconds to wait after the last expected observation for one too many."""

    @property
    def id(self) -> str:
        """How assertions and reports refer to the test."""
        return f"event-delivery/{self.number}"

    @property
    def kind(self) -> Literal["Subscription", "Trigger"]:
        """What is under test."""
        return "Subscription" if self.name.startswith("channel") else "Trigger"

    @property
    def scenario(self) -> str:
        """The manifest of the scenario."""
        return f"{self.number}-00-{self.name}.yaml"

    @property
    def emitter(self) -> str:
        """The manifest of the emitter."""
        return f"{self.number}-01-{self.name}.yaml"

    @property
    def seconds(self) -> float:
        """How long the deliveries take when everything works, without the emitter's own delay."""
        return max(sum(expected.gap or 0.0 for expected in sink.observations) for sink in self.sinks)


_ONCE = (Expected("Received", 1),)
_REJECTED = (Expected("Rejected", 1),)
_REPLY = {"conformance": "response message"}


def _retried(*gaps: float) -> tuple[Expected, ...]:
    first, second, third = gaps
    return (
        Expected("Rejected", 1),
        Expected("Rejected", 2, first),
        Expected("Rejected", 3, second),
        Expected("Received", 1, third),
    )


_LINEAR = _retried(0.0, 2.0, 4.0)
_EXPONENTIAL = _retried(2.0, 4.0, 8.0)

TESTS: tuple[DeliveryTest, ...] = (
    DeliveryTest("01", "channel-ack", "Channel: delivered", (Sink("sink-ack", _ONCE),)),
    DeliveryTest("02", "broker-ack", "Broker: delivered", (Sink("sink-ack", _ONCE),)),
    DeliveryTest("03", "channel-nack", "Channel: failed, no retries", (Sink("sink-3nack", _REJECTED),), settle=5.0),
    DeliveryTest("04", "broker-nack", "Broker: failed, no retries", (Sink("sink-3nack", _REJECTED),), settle=5.0),
    DeliveryTest("05", "channel-retry-linear", "Channel: linear retries", (Sink("sink-3nack", _LINEAR),)),
    DeliveryTest("06", "broker-retry-linear", "Broker: linear retries", (Sink("sink-3nack", _LINEAR),)),
    DeliveryTest(
        "07", "channel-retry-exponential", "Channel: exponential retries", (Sink("sink-3nack", _EXPONENTIAL),)
    ),
    DeliveryTest("08", "broker-retry-exponential", "Broker: exponential retries", (Sink("sink-3nack", _EXPONENTIAL),)),
    DeliveryTest(
        "09",
        "channel-dls",
        "Channel: failed, dead letter sink",
        (Sink("sink-3nack", _REJECTED), Sink("sink-ack", _ONCE, "dead letter")),
    ),
    DeliveryTest(
        "10",
        "broker-dls",
        "Broker: failed, dead letter sink",
        (Sink("sink-3nack", _REJECTED), Sink("sink-ack", _ONCE, "dead letter")),
    ),
    DeliveryTest(
        "11",
        "channel-reply",
        "Channel: reply",
        (Sink("sink-ack-reply", _ONCE), Sink("sink-ack", _ONCE, "reply", "conformance.reply", None, _REPLY)),
    ),
    DeliveryTest(
        "12",
        "broker-reply",
        "Broker: reply",
        (
            Sink("sink-ack-reply", _ONCE),
            Sink("sink-ack", _ONCE, "subscriber", "com.example.conformance.reply", None, _REPLY),
        ),
    ),
    DeliveryTest(
        "13",
        "channel-reply-retry",
        "Channel: reply with retries",
        (Sink("sink-ack-reply", _ONCE), Sink("sink-3nack", _LINEAR, "reply", "conformance.reply", None, _REPLY)),
    ),
)


def find(number: str) -> DeliveryTest | None:
    """The test with this number, written `5`, `05` or `event-delivery/05`."""
    wanted = number.rpartition("/")[2].zfill(2)
    return next((test for test in TESTS if test.number == wanted), None)
