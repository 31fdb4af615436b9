"""HTTP to subscribers: pooled connections, no redirects, and never more of an answer in memory than it is worth.

A name of the snapshot is connected to at its address while the request keeps the name as its Host; over TLS the
certificate is checked against the name, not the address.
"""

from __future__ import annotations

import asyncio

from penstock.contract.names import Location, NameTable, NothingThere
from penstock.contract.routes import Endpoint
from penstock.destinations import Destinations
from penstock.dispatcher.http.address import HttpAddress, address
from penstock.dispatcher.http.connection import IGNORED_BODY_BYTES, NoConnection, SubscriberResponse
from penstock.dispatcher.http.pool import Pool
from penstock.log.threads import Owner
from penstock.tls.clients import ClientCertificate


class Unsendable(ValueError):
    """The request can not be made, now or ever: the address or a header is invalid."""


class SubscriberClient:
    """The HTTP side of a task."""

    def __init__(self, max_event_bytes: int, destinations: Destinations, owner: Owner) -> None:
        self._names = NameTable()
        self._left_to_dns: dict[str, Location] = {}
        """Addresses that the present names do not know, which is most of them: looked up once."""
        # A structured event may carry its data in base64, and some attributes.
        self._pool = Pool(max_event_bytes * 4 // 3 + IGNORED_BODY_BYTES, destinations, owner)
        self._zone = destinations.zone
        self._loop = asyncio.get_running_loop()

    def trust(self, certificates: str) -> None:
        """Believes every destination by these authorities too, from now on."""
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
        """Sends one request with these header lines for a route of the namespace. Raises NoAnswer or Unsendable."""
        origin, opening = self._address(endpoint, names, self._zone(namespace), certificate)
        head = b"%b%bcontent-length: %d\r\n\r\n" % (opening, lines, len(body))
        deadline = self._loop.time() + seconds
        connection = self._pool.idle(origin)
        if connection is None:
            try:
                connection = await self._pool.connect(origin, seconds)
            except ValueError as error:
                raise Unsendable(str(error)) from error
        try:
            return await connection.ask(head, body, deadline, seconds, reply_counts)
        except asyncio.CancelledError:
            connection.abort()
            raise

    def _address(
        self, endpoint: Endpoint, names: NameTable, zone: str, certificate: ClientCertificate | None
    ) -> HttpAddress:
        try:
            location = self._locate(endpoint.url, names)
            return address(location.url, location.host, endpoint.ca_certs, zone, certificate)
        except NothingThere as error:
            raise NoConnection(str(error)) from error
        except ValueError as error:
            raise Unsendable(f"{endpoint.url} is no valid address: {error}") from error

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
