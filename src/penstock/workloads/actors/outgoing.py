"""Requests of a built-in program to others: the node says which addresses they may go to, and they go to one of those.

So a name cannot lead elsewhere between the check and the connection, and the program needs neither the names of
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
"""Of names that have addresses here, with the certificates by which they are believed."""


class NotSent(Exception):
    """The request got no answer that can be used; the text says why."""


class Outgoing:
    """Sends requests."""

    def __init__(
        self, node: NodeLine, most_bytes: int, ca_certs: str | None = None, *, with_bundles: bool = False
    ) -> None:
        """`most_bytes` of an answer are read. `ca_certs` in PEM are believed beside what the system trusts; without
        them, or `with_bundles`, the trust bundles are, as they are now."""
        self._node, self._most, self._ca_certs = node, most_bytes, ca_certs
        self._with_bundles = with_bundles or ca_certs is None
        self._clients: OrderedDict[tuple[tuple[str, str, int] | None, str], Client] = OrderedDict()

    async def send(
        self, method: str, url: str, headers: Sequence[tuple[str, str]] = (), body: bytes | None = None
    ) -> HttpResponse:
        """The answer. Raises NotSent."""
        try:
            reach = await self._node.ask("locate", Reach, url=url)
            bundles = reach.trusted if self._with_bundles else ""
            trusted = "\n".join(filter(None, (self._ca_certs, bundles)))
            for target in reach.targets:
                try:
                    return await self._send(target, trusted, method, headers, body)
                except ConnectError as error:
                    unreachable = error  # another address of the name may answer
        except (NodeRefused, PyreqwestError, ResponseTooLarge) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        raise NotSent(f"ConnectError: {unreachable}") from unreachable

    async def close(self) -> None:
        """Ends its connections."""
        for client in self._clients.values():
            await client.close()

    async def _send(
        self, target: Target, trusted: str, method: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> HttpResponse:
        # The address was judged for the host of the URL; as in Go's client, whose programs these are, a header does not
        # name another.
        sent = [(name, value) for name, value in headers if name.lower() != "host"]
        request = self._client(target.lead, trusted).request(method, target.url).headers(sent)
        if target.host:
            request = request.header("Host", target.host)
        if body is not None:
            request = request.body_bytes(body)
        answer = await response_to(request, self._most)
        encodings = {value.strip().lower() for name, value in answer.headers if name == "content-encoding"}
        if encodings - {"", "identity"}:
            raise NotSent(f"the answer has the Content-Encoding {', '.join(encodings)}, which was not asked for")
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
