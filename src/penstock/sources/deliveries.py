"""Sends an event until its sink accepts it, and keeps the reason of a delay for the status."""

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

# One event to one sink by HTTP: accepted with a 2xx, or not, with the reason. A sink may hang or be slow without harm
# to the others: how many requests may be under way is counted for each host. Where events may go is judged as for
# deliveries: by the addresses that a name has now, and the connection is made to one that was judged, so that the
# name cannot lead elsewhere in between.

USER_AGENT = "penstock-sources"
TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)
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
        self.status = status
        """The sink's answer; None where there was none."""
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
        self._clients: OrderedDict[tuple[str | None, str, tuple[str, str, int] | None], Client] = OrderedDict()
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MOST_PER_HOST))

    async def __aenter__(self) -> Sinks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends its connections."""
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
                    answer = await self._request(sink, target, event, namespace)
                except ConnectError as error:
                    unreachable = error  # another address of the name may answer
                else:
                    break
            else:
                raise unreachable
        except (NothingThere, Refused) as error:
            raise NotAccepted(str(error)) from error
        except Exception as error:
            # What one source asks for (a URL, a header, a certificate) may be impossible in many ways; it must not end
            # the others.
            raise NotAccepted(without_userinfo(f"{type(error).__name__}: {error}")[:SHOWN_BODY]) from error
        if 200 <= answer.status < 300:
            return
        said = answer.body.decode("utf-8", "replace").strip()
        message = f"{without_userinfo(sink.url)} answered {answer.status}" + (f": {said}" if said else "")
        raise NotAccepted(message, answer.status)

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
        """A client that knows the address of the URL's name."""
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


FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
TOLD_AFTER = 3
"""Failures in a row before they are reported: a restart of the sink is not."""

Send = Callable[[ResolvedAddress, CloudEvent, str], Awaitable[None]]
Letter = tuple[ResolvedAddress, CloudEvent, str]
"""Where to, what, and the namespace of the source."""


class SourceDeliveries:
    """The deliveries of one source, one after the other."""

    def __init__(self, send: Send, reported: Callable[[], None]) -> None:
        self.trouble: str | None = None
        """Why the source waits for its sink; None where it does not."""
        self._send, self._reported = send, reported
        self._changed = asyncio.Event()

    def hurry(self) -> None:
        """What is sent, or where to, has changed: a pause before the next try is cut short."""
        self._changed.set()

    async def deliver(self, letter: Callable[[], Letter | None], *, skip_refused: bool = False) -> bool:
        """Tries until accepted; False as soon as there is nothing to send any more. Each try asks for it anew.

        With `skip_refused` an event that the sink refuses for good is reported and left out.
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
                if failures >= TOLD_AFTER:
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
