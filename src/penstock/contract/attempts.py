"""The records of `penstock.attempts`: one per delivery attempt, in JSON, for queries about what happened.

It lies in the partition of its event and is committed together with the cursor that it moved.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from penstock.contract.records import read_json

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


# Why an attempt had no answer, or why none is made, as the dispatcher finds it and the control plane shows it. The
# values are the reasons of the condition `Delivering` (`docs/failures.md`). An attempt that had an answer has a
# status, which says more.


class FailureCause(enum.StrEnum):
    """What went wrong."""

    CONNECTION_REFUSED = "ConnectionRefused"
    """The host answers and nothing listens on the port."""
    CONNECTION_TIMEOUT = "ConnectionTimeout"
    """No connection, or no address to connect to, was there in time."""
    CONNECTION_CLOSED = "ConnectionClosed"
    """The connection ended before the answer was complete."""
    TIMEOUT = "Timeout"
    """The request was sent and the answer did not come in time."""
    NAME_NOT_FOUND = "NameNotFound"
    """DNS has no address for the host name."""
    NO_READY_ADDRESS = "NoReadyAddress"
    """A Service of the embedded control plane has no ready Pod behind the port."""
    DESTINATION_REFUSED = "DestinationRefused"
    """The settings forbid deliveries to the address."""
    CERTIFICATE_REFUSED = "CertificateRefused"
    """The certificate of the destination is not trusted, or TLS failed in another way."""
    CLIENT_CERTIFICATE_REFUSED = "ClientCertificateRefused"
    """The destination does not take the certificate that it is shown, or misses one."""
    SECRET_UNAVAILABLE = "SecretUnavailable"  # noqa: S105  # a reason, not a password
    """A Secret that the route needs cannot be used, so nothing is sent."""
    TOKEN_UNAVAILABLE = "TokenUnavailable"  # noqa: S105
    """The Kubernetes API gives no token of the route's ServiceAccount, so nothing is sent."""
    HISTORY_UNAVAILABLE = "HistoryUnavailable"
    """The oldest events of the route may be in the history, which cannot be read."""
    CACERTS_UNREADABLE = "CACertsUnreadable"
    """The `CACerts` of the destination are not certificates, so nothing is sent."""
    DNS_UNAVAILABLE = "DNSUnavailable"
    """No DNS server answers for the host name, so nothing is sent."""
    OUT_OF_RESOURCES = "OutOfResources"
    """This machine has no file, port or memory for another connection, so nothing is sent."""
    NOT_HTTP = "NotHTTP"
    """What came back is not HTTP/1.1."""
    DELIVERY_FAILED = "DeliveryFailed"
    """Anything else; the message of the failure says more."""

    @classmethod
    def _missing_(cls, value: object) -> FailureCause:
        """A dispatcher of a newer version may know causes that this control plane does not."""
        return cls.DELIVERY_FAILED
