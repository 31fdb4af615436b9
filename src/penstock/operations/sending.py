"""Sends one event to a Broker or Channel: its address, the credentials, the request, and the cause of a failure.

The CLI and the console both use it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import msgspec

from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.runtime.hosts import without_userinfo
from penstock.web.tls_clients import tls_to

TIMEOUT_SECONDS = 30.0
LONGEST_REASON = 300
"""Longer texts of responses are cut, in characters."""


@dataclass(frozen=True)
class SendingAddress:
    """The address at which a Broker or Channel accepts events."""

    url: str
    """Empty if it has none yet."""
    authorities: str = ""
    """CA certificates in PEM that its server is verified with, besides the system's."""
    audience: str = ""
    """The audience of the token that a sender needs; empty if none is required."""

    @property
    def is_secure(self) -> bool:
        """Whether events go there over TLS."""
        return self.url.lower().startswith("https:")


def address_in(obj: Mapping[str, Any]) -> SendingAddress:
    """The address that the object's status has."""
    status = (obj.get("status") or {}).get("address") or {}
    return SendingAddress(*(str(status.get(name) or "") for name in ("url", "CACerts", "audience")))


@dataclass(frozen=True)
class SendingCredentials:
    """Token and trusted CAs of requests."""

    token: str = field(default="", repr=False)
    trusted: ssl.SSLContext | None = None
    """None: the CAs of the system."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Headers that authenticate the sender."""
        return [("authorization", f"Bearer {self.token}")] if self.token else []


def credentials_to(address: SendingAddress, token: str = "", *authorities: str) -> SendingCredentials:
    """Credentials for the address. Its server is verified with its own and these CAs (PEM), besides the system's.

    Raises ValueError for an invalid certificate.
    """
    if not address.is_secure:
        return SendingCredentials(token)
    return SendingCredentials(token, tls_to("\n".join(filter(None, (address.authorities, *authorities)))))


Fault = Literal["none", "untrusted", "other name", "no TLS", "hung up"]
"""Causes of a failed connection that the sender can fix."""


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """The cause of a failed connection and a message, from an error of the client and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
            fault: Fault = "other name" if cause.verify_code in (62, 64) else "untrusted"
            return fault, f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "no TLS", "the server does not use TLS"
        cause = cause.__cause__ or cause.__context__
    # A TLS server that gets plain HTTP closes the connection, which is a reset where it has not read everything.
    if isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError):
        return "hung up", ""
    return "none", ""


@dataclass(frozen=True)
class Sent:
    """The result of sending one event."""

    url: str
    id: str
    source: str
    status: int | None
    """None: no response."""
    seconds: float
    problem: str = ""
    fault: Fault = "none"

    @property
    def accepted(self) -> bool:
        """Whether penstock has stored it."""
        return self.status is not None and 200 <= self.status <= 299

    def line(self) -> str:
        """The result as a line of text."""
        if self.accepted:
            return f"accepted: {self.id} ({self.status} after {self.seconds * 1000:.0f} ms)"
        status = f"{self.status} " if self.status is not None else ""
        return f"not accepted by {without_userinfo(self.url)}: {status}{self.problem}"

    def json(self) -> str:
        """The result as JSON."""
        shown = {"id": self.id, "source": self.source, "status": self.status, "seconds": round(self.seconds, 6)}
        return msgspec.json.encode(shown | ({"problem": self.problem} if self.problem else {})).decode()


def client_for(credentials: SendingCredentials, limits: httpx2.Limits | None = None) -> httpx2.AsyncClient:
    """An HTTP client with the trusted CAs of the credentials."""
    trusted = credentials.trusted or True
    return httpx2.AsyncClient(
        timeout=TIMEOUT_SECONDS, trust_env=False, verify=trusted, limits=limits or httpx2.Limits()
    )


async def post(client: httpx2.AsyncClient, url: str, event: CloudEvent, credentials: SendingCredentials) -> Sent:
    """Sends the event."""
    headers, body = http.to_binary(event)
    begun = time.perf_counter()

    def sent(status: int | None, problem: str, fault: Fault = "none") -> Sent:
        return Sent(url, event.id, event.source, status, time.perf_counter() - begun, problem, fault)

    try:
        response = await client.post(url, headers=[*headers, *credentials.headers], content=body)
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        fault, words = fault_of(error)
        return sent(None, words or str(error) or type(error).__name__, fault)
    return sent(response.status_code, "" if response.is_success else response.text.strip()[:LONGEST_REASON])
