"""Sends events to an ingress at a rate (`penstock send`), with advice for events that were not accepted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from penstock.cli.event_input import numbered
from penstock.events.event import CloudEvent
from penstock.operations.sending import Fault, SendingCredentials, Sent, client_for, post

MAX_CONCURRENT = 64
"""Concurrent requests when many events are sent."""
ANONYMOUS = SendingCredentials()


_BY_FAULT = {
    "untrusted": "Name the CA that signed its certificate: --ca-file FILE. The CA of a stack is pki/ca.crt in its data "
    "folder; kubectl get broker NAME -o jsonpath='{.status.address.CACerts}' prints it too.",
    "other name": "Its certificate is for other names: send to one of those, or add this one (settings address_base, "
    "tls_address_base).",
    "hung up": "Use https:// instead of http://, or another port.",
    "no TLS": "That port does not use TLS: use http:// instead of https://, or another port.",
}
_BY_STATUS = {
    401: "Authenticate: --token KEY with an API key (create one with penstock keys create BROKER NAME) or a token for "
    "its audience, --service-account NAME, or the variable PENSTOCK_SEND_TOKEN.",
    403: "The sender is not authorized to send this event; see its EventPolicies: penstock get eventpolicies",
    404: "Check the address: penstock get brokers, or penstock get channels.",
    429: "Send slower: --rate N.",
}


@dataclass
class SendingOutcome:
    """How many events were accepted."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """A line of text."""
        rate = self.accepted / self.seconds if self.seconds else 0.0
        rest = f", {self.refused} not" if self.refused else ""
        return f"{self.accepted} accepted{rest} in {self.seconds:.1f} s ({rate:.0f}/s)"


class EventSender:
    """Sends events to one address."""

    def __init__(self, url: str, report: Callable[[Sent], None], credentials: SendingCredentials = ANONYMOUS) -> None:
        self._url, self._report, self._credentials = url, report, credentials
        self._outcome = SendingOutcome()

    async def send(self, event: CloudEvent, count: int = 1, rate: float | None = None) -> SendingOutcome:
        """Sends the event `count` times, each with an id of its own, at `rate` a second or as fast as possible."""
        begun, slots = time.perf_counter(), asyncio.Semaphore(MAX_CONCURRENT)
        limits = httpx2.Limits(max_connections=MAX_CONCURRENT)
        async with client_for(self._credentials, limits) as client, asyncio.TaskGroup() as group:
            for number in range(count):
                if rate is not None:
                    await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                await slots.acquire()
                group.create_task(self._post(client, numbered(event, number), slots))
        self._outcome.seconds = time.perf_counter() - begun
        return self._outcome

    async def _post(self, client: httpx2.AsyncClient, event: CloudEvent, slots: asyncio.Semaphore) -> None:
        try:
            sent = await post(client, self._url, event, self._credentials)
        finally:
            slots.release()
        if sent.accepted:
            self._outcome.accepted += 1
        else:
            self._outcome.refused += 1
        self._report(sent)


def remedy(status: int | None, fault: Fault = "none") -> str:
    """What to do about a failed request; empty if there is nothing to add."""
    if status is not None:
        return _BY_STATUS.get(status, "")
    return _BY_FAULT.get(fault, "")
