"""Sends the events of sources to their sinks, until they are accepted.

`Sinks` sends one event by HTTP: a 2xx accepts it. The number of concurrent requests is limited per host, so that a slow
sink does not affect others. Destinations are checked as for deliveries: by the addresses that a name has now, and the
connection is made to a checked address, so that the name cannot resolve to another one in between. `SourceDeliveries`
retries one event after the other, and keeps the reason of a delay for the status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from urllib.parse import urlsplit

from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError

from penstock.contract.names import Location, NothingThere, Target
from penstock.destinations import Destinations
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.resources.destinations import ResolvedAddress
from penstock.runtime.hosts import without_userinfo
from penstock.runtime.rate_limit import pause_after
from penstock.runtime.times import rfc3339
from penstock.sources.targets import Refused, targets_of
from penstock.web.http_clients import HttpResponse, client_builder, response_to

USER_AGENT = "penstock-sources"
TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)
MOST_PER_HOST = 32
MOST_CLIENTS = 256
SHOWN_BODY = 200

REFUSED_FOR_GOOD = frozenset({400, 413, 415, 422, 431})
"""Statuses about the event itself: it is malformed, or too large."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
REPORTED_AFTER = 3
"""Failures in a row before they are reported: fewer may be a restart of the sink."""

Locate = Callable[[str], Location]
GetToken = Callable[[str, str, str], Awaitable[str]]
"""The token of a ServiceAccount, by its namespace, its name and the audience."""
Send = Callable[[ResolvedAddress, CloudEvent, str], Awaitable[None]]
Letter = tuple[ResolvedAddress, CloudEvent, str]
"""The sink, the event, and the namespace of the source."""


class NotAccepted(Exception):
    """The sink did not accept the event; the message says why."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        """The status of the response; None where there was none."""
        self.for_good = status in REFUSED_FOR_GOOD
        """Whether the event itself was rejected, so that retrying does not help."""


class Sinks:
    """Sends events. Connections are opened with the first event."""

    def __init__(
        self,
        locate: Locate,
        token: GetToken | None = None,
        destinations: Destinations | None = None,
        trusted: Callable[[], str] = str,
    ) -> None:
        """`trusted` returns certificate authorities, in PEM, that are trusted for every sink."""
        self._locate, self._token, self._destinations, self._trusted = locate, token, destinations, trusted
        self._clients: OrderedDict[tuple[str | None, str, tuple[str, str, int] | None], Client] = OrderedDict()
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MOST_PER_HOST))

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        """Returns when the sink has accepted the event of a source in the namespace. Raises NotAccepted."""
        async with self._turns[urlsplit(sink.url).netloc]:
            await self._send(sink, event, namespace)

    async def _send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        try:
            location = self._locate(sink.url)
            for target in await targets_of(location, self._destinations, namespace):
                try:
                    response = await self._request(sink, target, event, namespace)
                except ConnectError as error:
                    unreachable = error  # another address of the name may be reachable
                else:
                    break
            else:
                raise unreachable
        except (NothingThere, Refused) as error:
            raise NotAccepted(str(error)) from error
        except Exception as error:
            # URL, header or certificate of one source may be invalid in many ways; that must not end the other sources.
            raise NotAccepted(without_userinfo(f"{type(error).__name__}: {error}")[:SHOWN_BODY]) from error
        if 200 <= response.status < 300:
            return
        body = response.body.decode("utf-8", "replace").strip()
        message = f"{without_userinfo(sink.url)} returned {response.status}" + (f": {body}" if body else "")
        raise NotAccepted(message, response.status)

    async def _request(self, sink: ResolvedAddress, target: Target, event: CloudEvent, namespace: str) -> HttpResponse:
        headers, body = http.to_binary(event)
        request = self._client(sink.ca_certs, target).post(target.url).headers(headers)
        request = request.header("Kn-Namespace", namespace)
        if sink.audience and sink.account and self._token is not None:
            request = request.bearer_auth(await self._token(namespace, sink.account, sink.audience))
        if target.host:
            request = request.header("Host", target.host)
        return await response_to(request.body_bytes(body), SHOWN_BODY, cut=True)

    def _client(self, ca_certs: str | None, target: Target) -> Client:
        """A client that uses the given address for the URL's host name."""
        trusted = self._trusted()
        kind = (ca_certs, trusted, target.lead)
        if kind not in self._clients:
            builder = client_builder(USER_AGENT).timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT)
            for certificates in (ca_certs, trusted):
                if certificates:
                    builder = builder.add_root_certificate_pem(certificates.encode())
            if target.lead is not None:
                builder = builder.resolve(*target.lead)
            self._clients[kind] = builder.build()
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(kind)
        return self._clients[kind]


class SourceDeliveries:
    """The deliveries of one source, one after the other."""

    def __init__(self, send: Send, reported: Callable[[], None]) -> None:
        self.trouble: str | None = None
        """Why the source waits for its sink; None where it does not."""
        self._send, self._reported = send, reported
        self._changed = asyncio.Event()

    def hurry(self) -> None:
        """The event or the sink has changed: ends a pause before the next attempt."""
        self._changed.set()

    async def deliver(self, letter: Callable[[], Letter | None], *, skip_refused: bool = False) -> bool:
        """Retries until the event is accepted. Each attempt calls `letter`; False when that has nothing to send.

        With `skip_refused` an event that the sink rejects for good is reported and left out.
        """
        failures, since = 0, rfc3339()
        while True:
            self._changed.clear()
            current = letter()
            if current is None:
                return False
            try:
                await self._send(*current)
            except NotAccepted as refusal:
                if skip_refused and refusal.for_good:
                    self._report(f"an event of {since} was refused: {refusal}")
                    return True
                failures += 1
                if failures >= REPORTED_AFTER:
                    self._report(f"events wait since {since}: {refusal}")
                await self._pause(pause_after(failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
            else:
                self._report(None)
                return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _report(self, trouble: str | None) -> None:
        if self.trouble != trouble:
            self.trouble = trouble
            self._reported()
