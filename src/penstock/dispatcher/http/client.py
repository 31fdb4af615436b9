"""HTTP to subscribers: pooled connections, no redirects, and a limit on how much of a response is read.

For a name that is in the snapshot, the connection is made to its address while the request keeps the name as its Host;
over TLS the certificate is checked against the name, not the address.
"""

from __future__ import annotations

import asyncio
import contextlib

from penstock.contract.attempts import FailureCause
from penstock.contract.names import Location, NameTable, NothingThere
from penstock.contract.routes import Endpoint
from penstock.destinations import Destinations
from penstock.dispatcher.http.address import HttpAddress, Origin, address
from penstock.dispatcher.http.connection import (
    IGNORED_BODY_BYTES,
    ClosedWithoutResponse,
    NoConnection,
    ResetWithoutResponse,
    SubscriberConnection,
    SubscriberResponse,
)
from penstock.dispatcher.http.pool import Pool
from penstock.runtime.tasks import TaskScope
from penstock.web.tls_clients import ClientCertificate


class Unsendable(ValueError):
    """The request cannot be sent, now or later: the address or a header is invalid."""


class SubscriberClient:
    """The HTTP side of a task."""

    def __init__(self, max_event_bytes: int, destinations: Destinations, scope: TaskScope) -> None:
        self._names = NameTable()
        self._left_to_dns: dict[str, Location] = {}
        """URLs whose hosts are not in the current names, which is most of them: checked once."""
        # A structured event may carry its data in base64, and some attributes.
        self._pool = Pool(max_event_bytes * 4 // 3 + IGNORED_BODY_BYTES, destinations, scope)
        self._zone = destinations.zone
        self._loop = asyncio.get_running_loop()

    def trust(self, certificates: str) -> None:
        """Trusts these certificate authorities for every destination from now on."""
        self._pool.trusted = certificates

    async def post(
        self,
        endpoint: Endpoint,
        names: NameTable,
        lines: bytes,
        body: bytes,
        *,
        namespace: str,
        seconds: float,
        reply_counts: bool,
        certificate: ClientCertificate | None = None,
    ) -> SubscriberResponse:
        """Sends one request with these header lines for a route of the namespace.

        Raises NoResponse, Unsendable, or Withheld where it could not be sent for a reason that is not the subscriber's.

        Within its deadline the request is sent again on a new connection if there was not a byte of a response and the
        subscriber had closed a kept connection, or reset a new one; the latter only once.
        """
        origin, opening = self._address(endpoint, names, self._zone(namespace), certificate)
        head = b"%b%bcontent-length: %d\r\n\r\n" % (opening, lines, len(body))
        deadline = self._loop.time() + seconds
        connection = self._pool.idle(origin)
        is_kept, may_reset = connection is not None, True
        while True:
            if connection is None:
                connection = await self._connect(origin, endpoint, names, deadline)
            try:
                return await connection.send(head, body, deadline, seconds, reply_counts)
            except ClosedWithoutResponse as problem:
                if not is_kept:
                    if not (may_reset and isinstance(problem, ResetWithoutResponse)):
                        raise
                    may_reset = False
            except asyncio.CancelledError:
                connection.abort()
                raise
            connection, is_kept = None, False

    async def _connect(
        self, origin: Origin, endpoint: Endpoint, names: NameTable, deadline: float
    ) -> SubscriberConnection:
        try:
            return await self._pool.connect(origin, deadline - self._loop.time())
        except NoConnection:
            # A terminating Pod may refuse connections before the snapshot shows that: try the other Pods of its
            # Service.
            for location in names.every_location(endpoint.url):
                other = address(location.url, location.host, origin.ca_certs, origin.zone, origin.certificate).origin
                if other != origin:
                    with contextlib.suppress(NoConnection):
                        return await self._pool.connect(other, deadline - self._loop.time())
            raise

    def _address(
        self, endpoint: Endpoint, names: NameTable, zone: str, certificate: ClientCertificate | None
    ) -> HttpAddress:
        try:
            location = self._locate(endpoint.url, names)
            return address(location.url, location.host, endpoint.ca_certs, zone, certificate)
        except NothingThere as error:
            raise NoConnection(str(error), FailureCause.NO_READY_ADDRESS) from error
        except ValueError as error:
            # The error may quote the password.
            why = f": {error}" if endpoint.shown == endpoint.url else ""
            raise Unsendable(f"{endpoint.shown} is not a valid address{why}") from error

    def _locate(self, url: str, names: NameTable) -> Location:
        if names is not self._names:
            self._names, self._left_to_dns = names, {}
        location = self._left_to_dns.get(url)
        if location is None:
            location = names.locate(url)
            if location.host is None:
                self._left_to_dns[url] = location
        return location

    async def close(self) -> None:
        """Closes all connections."""
        self._pool.close()
