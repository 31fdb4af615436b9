"""A client that believes servers by what the system trusts and by the trust bundles, as they are now."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from pyreqwest.client import Client, ClientBuilder

from penstock.contract.names import Location

MOST = 64
"""Clients that know where a name leads over TLS."""


class TrustingClient:
    """Gives clients; others when the bundles have changed. What is under way ends on the one it began on."""

    def __init__(self, trusted: Callable[[], str], builder: Callable[[], ClientBuilder]) -> None:
        """`trusted` are certificates in PEM."""
        self._trusted, self._builder = trusted, builder
        self._certificates = ""
        self._clients: OrderedDict[tuple[str, str, int] | None, Client] = OrderedDict()

    def __call__(self, location: Location) -> Client:
        """The client for the next request, which is for the location's `named_url`."""
        certificates, lead = self._trusted(), location.lead
        if certificates != self._certificates:
            self._clients, self._certificates = OrderedDict(), certificates
        if lead not in self._clients:
            builder = self._builder()
            if certificates:
                builder = builder.add_root_certificate_pem(certificates.encode())
            self._clients[lead] = (builder if lead is None else builder.resolve(*lead)).build()
            if len(self._clients) > MOST:
                self._clients.popitem(last=False)
        self._clients.move_to_end(lead)
        return self._clients[lead]

    async def close(self) -> None:
        """Ends their connections."""
        for client in self._clients.values():
            await client.close()
