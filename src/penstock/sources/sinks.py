"""One event to one sink by HTTP: accepted with a 2xx, or not, with the reason.

A sink may hang or be slow without harm to the others: how many requests may be under way is counted for each host.

Where events may go is judged as for deliveries: by the addresses that a name has now, and the connection is made to one
that was judged, so that the name cannot lead elsewhere in between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from urllib.parse import urlsplit

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import ConnectError

from penstock.contract.names import Location, NothingThere
from penstock.destinations import Destinations
from penstock.events import http
from penstock.events.event import CloudEvent
from penstock.resources.destinations.resolution import ResolvedAddress

USER_AGENT = "penstock-sources"
TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)
LOOKUP_SECONDS = 10.0
MOST_PER_HOST = 32
MOST_CLIENTS = 256
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

    def __init__(
        self,
        locate: Locate,
        token: GetToken | None = None,
        destinations: Destinations | None = None,
        trusted: Callable[[], str] = str,
    ) -> None:
        """`trusted` are certificates, in PEM, by which every sink may be believed."""
        self._locate, self._token, self._destinations, self._trusted = locate, token, destinations, trusted
        self._clients: OrderedDict[tuple[str | None, str, str, str, int], Client] = OrderedDict()
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MOST_PER_HOST))

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        """Returns when the sink has accepted the event of a source in the namespace. Raises NotAccepted."""
        async with self._turns[urlsplit(sink.url).netloc]:
            await self._send(sink, event, namespace)

    async def _send(self, sink: ResolvedAddress, event: CloudEvent, namespace: str) -> None:
        headers, body = http.to_binary(event)
        try:
            location = self._locate(sink.url)
            for client in await self._allowed(sink.ca_certs, location, namespace):
                request = client.post(location.named_url).headers(headers).header("Kn-Namespace", namespace)
                if sink.audience and sink.account and self._token is not None:
                    request = request.bearer_auth(await self._token(namespace, sink.account, sink.audience))
                if location.host:
                    request = request.header("Host", location.host)
                try:
                    response = await request.body_bytes(body).build().send()
                except ConnectError as error:
                    unreachable = error  # another address of the name may answer
                else:
                    break
            else:
                raise unreachable
            if 200 <= response.status < 300:
                return
            answer = bytes(await response.bytes())[:SHOWN_BODY].decode("utf-8", "replace").strip()
        except NotAccepted:
            raise
        except NothingThere as error:
            raise NotAccepted(str(error)) from error
        except Exception as error:
            # What one source asks for (a URL, a header, a certificate) may be impossible in many ways; it must not end
            # the others.
            raise NotAccepted(f"{type(error).__name__}: {error}"[:SHOWN_BODY]) from error
        told = f"{sink.url} answered {response.status}" + (f": {answer}" if answer else "")
        raise NotAccepted(told, response.status)

    async def _allowed(self, ca_certs: str | None, location: Location, namespace: str) -> list[Client]:
        """Clients of the addresses behind a URL that events may go to. Raises NotAccepted where there are none."""
        parts, name = urlsplit(location.url), urlsplit(location.named_url).hostname or ""
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if self._destinations is None or not host:
            return [self._client(ca_certs, name, host if name != host else "", port)]
        addresses = await _addresses_of(host)
        zone = self._destinations.zone(namespace)
        refusals = {address: self._destinations.refusal(zone, address) for address in addresses}
        allowed = [address for address, refusal in refusals.items() if refusal is None]
        if not allowed:
            raise NotAccepted(next(iter(refusals.values()), None) or f"{host} has no address")
        return [self._client(ca_certs, name, address, port) for address in allowed]

    def _client(self, ca_certs: str | None, host: str, address: str, port: int) -> Client:
        """A client that has one address for the host, where one was found."""
        trusted = self._trusted()
        place = (ca_certs, trusted, host, address, port)
        if place not in self._clients:
            builder = ClientBuilder().no_proxy().user_agent(USER_AGENT).follow_redirects(False)
            builder = builder.timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT)
            for certificates in (ca_certs, trusted):
                if certificates:
                    builder = builder.add_root_certificate_pem(certificates.encode())
            if address and address != host:
                builder = builder.resolve(host, address, port)
            self._clients[place] = builder.build()
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(place)
        return self._clients[place]


async def _addresses_of(host: str) -> list[str]:
    """What a host stands for now. Raises OSError or TimeoutError."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(place[4][0]) for place in found))
    return [host]
