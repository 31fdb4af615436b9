"""One event to an ingress, and what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import httpx2
import msgspec

from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.hosts import without_userinfo
from penstock.operations.sending import Fault, SendingCredentials, fault_of

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
