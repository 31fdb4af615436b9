"""Events to an ingress, as fast as asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2
import msgspec

from penstock.cli.operate.credentials import Credentials
from penstock.cli.operate.event_input import numbered
from penstock.cli.operate.refusals import Fault, fault_of, remedy
from penstock.events import http
from penstock.events.event import CloudEvent

AT_ONCE = 64
"""Requests under way at once, where many are to be sent."""
TIMEOUT_SECONDS = 30.0
NOBODY = Credentials()


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
        return f"not accepted by {self.url}: {answer}{self.problem}"

    @property
    def remedy(self) -> str:
        """What to do where it was not accepted."""
        return "" if self.accepted else remedy(self.status, self.fault)

    def json(self) -> str:
        """For programs."""
        shown = {"id": self.id, "source": self.source, "status": self.status, "seconds": round(self.seconds, 6)}
        return msgspec.json.encode(shown | ({"problem": self.problem} if self.problem else {})).decode()


@dataclass
class Outcome:
    """What became of all."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """For people."""
        rate = self.accepted / self.seconds if self.seconds else 0.0
        rest = f", {self.refused} not" if self.refused else ""
        return f"{self.accepted} accepted{rest} in {self.seconds:.1f} s ({rate:.0f}/s)"


class Sender:
    """Sends to one address."""

    def __init__(self, url: str, tell: Callable[[Sent], None], credentials: Credentials = NOBODY) -> None:
        self._url, self._tell, self._credentials = url, tell, credentials
        self._outcome = Outcome()

    async def send(self, event: CloudEvent, count: int = 1, rate: float | None = None) -> Outcome:
        """Sends the event `count` times, each with an id of its own, at `rate` a second or as fast as it goes."""
        begun, slots = time.perf_counter(), asyncio.Semaphore(AT_ONCE)
        limits = httpx2.Limits(max_connections=AT_ONCE)
        trusted = self._credentials.trusted or True
        async with (
            httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False, limits=limits, verify=trusted) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in range(count):
                if rate is not None:
                    await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                await slots.acquire()
                group.create_task(self._post(client, numbered(event, number), slots))
        self._outcome.seconds = time.perf_counter() - begun
        return self._outcome

    async def _post(self, client: httpx2.AsyncClient, event: CloudEvent, slots: asyncio.Semaphore) -> None:
        headers, body = http.to_binary(event)
        begun = time.perf_counter()
        try:
            answer = await client.post(self._url, headers=[*headers, *self._credentials.headers], content=body)
            sent = self._sent(event, answer.status_code, begun, "" if answer.is_success else answer.text.strip()[:300])
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            fault, words = fault_of(error)
            sent = self._sent(event, None, begun, words or str(error) or type(error).__name__, fault)
        finally:
            slots.release()
        if sent.accepted:
            self._outcome.accepted += 1
        else:
            self._outcome.refused += 1
        self._tell(sent)

    def _sent(self, event: CloudEvent, status: int | None, begun: float, problem: str, fault: Fault = "none") -> Sent:
        return Sent(self._url, event.id, event.source, status, time.perf_counter() - begun, problem, fault)
