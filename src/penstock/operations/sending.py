"""How events are sent to a Broker or Channel: the address, the credentials, and what went wrong with a connection."""

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


@dataclass(frozen=True)
class SendingAddress:
    """Where a Broker or Channel takes events."""

    url: str
    """Empty where it has none yet."""
    authorities: str = ""
    """Certificates, in PEM, of who signs for its server beside those whom the system trusts."""
    audience: str = ""
    """For whom a token of the sender has to be; empty: none is asked for."""

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
    """What goes with every request."""

    token: str = field(default="", repr=False)
    trusted: ssl.SSLContext | None = None
    """None: what the system trusts."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those that say who sends."""
        return [("authorization", f"Bearer {self.token}")] if self.token else []


def credentials_to(address: SendingAddress, token: str = "", *authorities: str) -> SendingCredentials:
    """What to send to the address with, which is believed by its own and by these authorities, in PEM, beside the
    system's. Raises ValueError where a certificate cannot be used.
    """
    if not address.is_secure:
        return SendingCredentials(token)
    return SendingCredentials(token, tls_to("\n".join(filter(None, (address.authorities, *authorities)))))


Fault = Literal["none", "untrusted", "other name", "no TLS", "hung up"]
"""What was wrong with the connection itself, as far as something can be done about it by who sends."""


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """What is wrong with a connection, and what to call it, from a client's error and those behind it."""
    if isinstance(error, httpx2.RemoteProtocolError):
        return "hung up", ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
            fault: Fault = "other name" if cause.verify_code in (62, 64) else "untrusted"
            return fault, f"its certificate is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "no TLS", "what answers does not speak TLS"
        cause = cause.__cause__ or cause.__context__
    return "none", ""


# One event to an ingress, and what became of it.

TIMEOUT_SECONDS = 30.0
LONGEST_REASON = 300
"""Letters of a refusal that are shown."""


@dataclass(frozen=True)
class Sent:
    """What became of one event."""

    url: str
    id: str
    source: str
    status: int | None
    """None where no answer came."""
    seconds: float
    problem: str = ""
    fault: Fault = "none"

    @property
    def accepted(self) -> bool:
        """Whether it is in safe hands."""
        return self.status is not None and 200 <= self.status <= 299

    def line(self) -> str:
        """For people."""
        if self.accepted:
            return f"accepted: {self.id} ({self.status} after {self.seconds * 1000:.0f} ms)"
        answer = f"{self.status} " if self.status is not None else ""
        return f"not accepted by {without_userinfo(self.url)}: {answer}{self.problem}"

    def json(self) -> str:
        """For programs."""
        shown = {"id": self.id, "source": self.source, "status": self.status, "seconds": round(self.seconds, 6)}
        return msgspec.json.encode(shown | ({"problem": self.problem} if self.problem else {})).decode()


def client_for(credentials: SendingCredentials, limits: httpx2.Limits | None = None) -> httpx2.AsyncClient:
    """A client that believes whom the credentials name."""
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
        answer = await client.post(url, headers=[*headers, *credentials.headers], content=body)
    except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        fault, words = fault_of(error)
        return sent(None, words or str(error) or type(error).__name__, fault)
    return sent(answer.status_code, "" if answer.is_success else answer.text.strip()[:LONGEST_REASON])
