"""One event to one sink by HTTP: accepted with a 2xx, or not, with the reason.

A sink may hang or be slow without harm to the others: how many requests may be under way is counted for each host.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from urllib.parse import urlsplit

from pyreqwest.client import Client, ClientBuilder

from penstock.contract.names import Location, NothingThere
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.resources.resolution import Address

USER_AGENT = "penstock-sources"
TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)
MOST_PER_HOST = 32
SHOWN_BODY = 200

REFUSED_FOR_GOOD = frozenset({400, 413, 415, 422, 431})
"""Answers about the event itself: it is malformed, or too large."""

Locate = Callable[[str], Location]
GetToken = Callable[[str, str, str], Awaitable[str]]
"""The token of a ServiceAccount, by its namespace, its name and the audience."""


class NotAccepted(Exception):  # the sink's answer, not a defect
    """The sink did not take the event; the text says why."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.for_good = status in REFUSED_FOR_GOOD
        """Whether it is the event that the sink does not want, now or later."""


class Sinks:
    """Sends events. Connections are opened with the first event, so that a stack without sources has none."""

    def __init__(self, locate: Locate, token: GetToken | None = None) -> None:
        self._locate, self._token = locate, token
        self._clients: dict[str | None, Client] = {}
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MOST_PER_HOST))

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def send(self, sink: Address, event: CloudEvent, namespace: str) -> None:
        """Returns when the sink has accepted the event of a source in the namespace. Raises NotAccepted."""
        async with self._turns[urlsplit(sink.url).netloc]:
            await self._send(sink, event, namespace)

    async def _send(self, sink: Address, event: CloudEvent, namespace: str) -> None:
        headers, body = http.to_binary(event)
        try:
            location = self._locate(sink.url)
            request = self._client(sink.ca_certs).post(location.url).headers(headers).header("Kn-Namespace", namespace)
            if sink.audience and sink.account and self._token is not None:
                request = request.bearer_auth(await self._token(namespace, sink.account, sink.audience))
            if location.host:
                request = request.header("Host", location.host)
            response = await request.body_bytes(body).build().send()
            if 200 <= response.status < 300:
                return
            answer = bytes(await response.bytes())[:SHOWN_BODY].decode("utf-8", "replace").strip()
        except NothingThere as error:
            raise NotAccepted(str(error)) from error
        except Exception as error:
            # What one source asks for (a URL, a header, a certificate) may be impossible in many ways; it must not end
            # the others.
            raise NotAccepted(f"{type(error).__name__}: {error}"[:SHOWN_BODY]) from error
        told = f"{sink.url} answered {response.status}" + (f": {answer}" if answer else "")
        raise NotAccepted(told, response.status)

    def _client(self, ca_certs: str | None) -> Client:
        if ca_certs not in self._clients:
            builder = ClientBuilder().no_proxy().user_agent(USER_AGENT).follow_redirects(False)
            builder = builder.timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT)
            if ca_certs:
                builder = builder.add_root_certificate_pem(ca_certs.encode())
            self._clients[ca_certs] = builder.build()
        return self._clients[ca_certs]
