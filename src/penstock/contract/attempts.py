"""The records of `penstock.attempts`: one per delivery attempt, in JSON, for queries about what happened.

It lies in the partition of its event and is committed together with the cursor that it moved.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from penstock.contract.records import read_json

Result = Literal["delivered", "replied", "retry", "deadletter", "dropped", "cancelled"]
"""What followed: nothing more to do, the reply, another attempt, the dead letter sink, dropped, route removed."""


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
    """HTTP status; absent where there was no response."""
    due: float | None = None
    """When the next attempt is due, Unix time in seconds."""
    reason: str | None = None
    """Why it failed."""
    kind: str = ""
    """`Trigger` or `Subscription`; kept with namespace and name, as the route may be gone when the record is read."""
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


class FailureCause(enum.StrEnum):
    """Why an attempt had no response, or was not made: set by the dispatcher, shown by the control plane.

    The values are the reasons of the condition `Delivering` (`docs/failures.md`). For an attempt with a response its
    HTTP status is shown instead.
    """

    CONNECTION_REFUSED = "ConnectionRefused"
    """The host is up, and nothing listens on the port."""
    CONNECTION_TIMEOUT = "ConnectionTimeout"
    """Connecting, or looking up the address, took too long."""
    CONNECTION_CLOSED = "ConnectionClosed"
    """The connection ended before the response was complete."""
    TIMEOUT = "Timeout"
    """The request was sent, and there was no response in time."""
    NAME_NOT_FOUND = "NameNotFound"
    """DNS has no address for the host name."""
    NO_READY_ADDRESS = "NoReadyAddress"
    """A Service of the embedded control plane has no ready Pod behind the port."""
    DESTINATION_REFUSED = "DestinationRefused"
    """The settings forbid deliveries to the address."""
    CERTIFICATE_REFUSED = "CertificateRefused"
    """The certificate of the destination is not trusted, or TLS failed in another way."""
    CLIENT_CERTIFICATE_REFUSED = "ClientCertificateRefused"
    """The destination rejects the client certificate, or requires one."""
    SECRET_UNAVAILABLE = "SecretUnavailable"  # noqa: S105  # a reason, not a password
    """A Secret that the route needs cannot be used, so nothing is sent."""
    TOKEN_UNAVAILABLE = "TokenUnavailable"  # noqa: S105
    """The Kubernetes API issues no token for the route's ServiceAccount, so nothing is sent."""
    HISTORY_UNAVAILABLE = "HistoryUnavailable"
    """The oldest events of the route may be in the history, which cannot be read."""
    CACERTS_UNREADABLE = "CACertsUnreadable"
    """The `CACerts` of the destination are not certificates, so nothing is sent."""
    DNS_UNAVAILABLE = "DNSUnavailable"
    """No DNS server responds to the query for the host name, so nothing is sent."""
    OUT_OF_RESOURCES = "OutOfResources"
    """This machine has no file, port or memory for another connection, so nothing is sent."""
    NOT_HTTP = "NotHTTP"
    """The response is not HTTP/1.1."""
    DELIVERY_FAILED = "DeliveryFailed"
    """Anything else; the message of the failure says more."""

    @classmethod
    def _missing_(cls, value: object) -> FailureCause:
        """A dispatcher of a newer version may know causes that this control plane does not."""
        return cls.DELIVERY_FAILED
