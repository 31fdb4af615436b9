"""Sends events to an ingress at a rate, and says what to do about an event that was not accepted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2

from penstock.cli.event_input import numbered
from penstock.events.event import CloudEvent
from penstock.operations.sending import Fault, SendingCredentials, Sent, client_for, post

if TYPE_CHECKING:
    from penstock.events.event import CloudEvent
    from penstock.operations.sending import SendingCredentials


AT_ONCE = 64
"""Requests under way at once, where many are to be sent."""
ANONYMOUS = SendingCredentials()


_BY_FAULT = {
    "untrusted": "Name who signed its certificate: --ca-file FILE. A stack's own authority is pki/ca.crt in its data "
    "folder; kubectl get broker NAME -o jsonpath='{.status.address.CACerts}' has it too.",
    "other name": "Its certificate is for other names: send to one of those, or have this one added (address_base, "
    "tls_address_base).",
    "hung up": "Is it https:// in place of http://, or another port?",
    "no TLS": "Nothing speaks TLS at that port: is it http:// in place of https://, or another port?",
}
_BY_STATUS = {
    401: "Say who sends: --token KEY with an API key (penstock keys create BROKER NAME makes one) or with a token for "
    "its audience, --service-account NAME, or the variable PENSTOCK_SEND_TOKEN.",
    403: "The sender is known and may not send this. EventPolicies say who may: penstock get eventpolicies",
    404: "penstock get brokers and penstock get channels show what is there, and whether it is http or https.",
    429: "Send slower: --rate N.",
}


@dataclass
class SendingOutcome:
    """What became of all."""

    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """For people."""
        rate = self.accepted / self.seconds if self.seconds else 0.0
        rest = f", {self.refused} not" if self.refused else ""
        return f"{self.accepted} accepted{rest} in {self.seconds:.1f} s ({rate:.0f}/s)"


class EventSender:
    """Sends to one address."""

    def __init__(self, url: str, report: Callable[[Sent], None], credentials: SendingCredentials = ANONYMOUS) -> None:
        self._url, self._report, self._credentials = url, report, credentials
        self._outcome = SendingOutcome()

    async def send(self, event: CloudEvent, count: int = 1, rate: float | None = None) -> SendingOutcome:
        """Sends the event `count` times, each with an id of its own, at `rate` a second or as fast as it goes."""
        begun, slots = time.perf_counter(), asyncio.Semaphore(AT_ONCE)
        limits = httpx2.Limits(max_connections=AT_ONCE)
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
    """What to do next; empty where the answer says it all."""
    if status is not None:
        return _BY_STATUS.get(status, "")
    return _BY_FAULT.get(fault, "")
