"""HTTP requests of built-in programs. The node resolves the URL to the allowed addresses, and one of them is used.

So the name cannot resolve to another address between check and connection, and the program needs neither the names of
Services nor the lists of destinations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta

from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, PyreqwestError

from penstock.contract.names import Target
from penstock.web.http_clients import HttpResponse, ResponseTooLarge, client_builder, response_to
from penstock.workloads.actors.node_line import NodeLine, NodeRefused, Reach

USER_AGENT = "penstock-workloads"
CONNECT_TIMEOUT = timedelta(seconds=10)
MOST_CLIENTS = 64
"""Cached clients, one per address and set of CA certificates."""


class NotSent(Exception):
    """The request got no usable response."""


class Outgoing:
    """Sends requests."""

    def __init__(
        self, node: NodeLine, most_bytes: int, ca_certs: str | None = None, *, with_bundles: bool = False
    ) -> None:
        """`most_bytes` limits responses. `ca_certs` (PEM) are trusted in addition to the system's CAs; without them, or
        `with_bundles`, the current trust bundles are trusted, too."""
        self._node, self._most, self._ca_certs = node, most_bytes, ca_certs
        self._with_bundles = with_bundles or ca_certs is None
        self._clients: OrderedDict[tuple[tuple[str, str, int] | None, str], Client] = OrderedDict()

    async def send(
        self, method: str, url: str, headers: Sequence[tuple[str, str]] = (), body: bytes | None = None
    ) -> HttpResponse:
        """The response. Raises NotSent."""
        try:
            reach = await self._node.ask("locate", Reach, url=url)
            bundles = reach.trusted if self._with_bundles else ""
            trusted = "\n".join(filter(None, (self._ca_certs, bundles)))
            for target in reach.targets:
                try:
                    return await self._send(target, trusted, method, headers, body)
                except ConnectError as error:
                    unreachable = error  # another address may be reachable
        except (NodeRefused, PyreqwestError, ResponseTooLarge) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        raise NotSent(f"ConnectError: {unreachable}") from unreachable

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.close()

    async def _send(
        self, target: Target, trusted: str, method: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> HttpResponse:
        # The address was checked for the host of the URL, so a Host header must not override it (as in Go's client).
        sent = [(name, value) for name, value in headers if name.lower() != "host"]
        request = self._client(target.lead, trusted).request(method, target.url).headers(sent)
        if target.host:
            request = request.header("Host", target.host)
        if body is not None:
            request = request.body_bytes(body)
        answer = await response_to(request, self._most)
        encodings = {value.strip().lower() for name, value in answer.headers if name == "content-encoding"}
        if encodings - {"", "identity"}:
            raise NotSent(f"unexpected Content-Encoding of the response: {', '.join(encodings)}")
        return answer

    def _client(self, lead: tuple[str, str, int] | None, trusted: str) -> Client:
        kind = (lead, trusted)
        if kind not in self._clients:
            builder = client_builder(USER_AGENT).connect_timeout(CONNECT_TIMEOUT)
            if trusted:
                builder = builder.add_root_certificate_pem(trusted.encode())
            self._clients[kind] = (builder if lead is None else builder.resolve(*lead)).build()
            if len(self._clients) > MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(kind)
        return self._clients[kind]
