"""A client that believes servers by what the system trusts and by the trust bundles, as they are now."""

from __future__ import annotations

from collections.abc import Callable

from pyreqwest.client import Client, ClientBuilder


class TrustingClient:
    """Gives the client; another one when the bundles have changed. What is under way ends on the one it began on."""

    def __init__(self, trusted: Callable[[], str], builder: Callable[[], ClientBuilder]) -> None:
        """`trusted` are certificates in PEM."""
        self._trusted, self._builder = trusted, builder
        self._certificates = ""
        self._client: Client | None = None

    def __call__(self) -> Client:
        """The client for the next request."""
        certificates = self._trusted()
        if self._client is None or certificates != self._certificates:
            builder = self._builder()
            if certificates:
                builder = builder.add_root_certificate_pem(certificates.encode())
            self._client, self._certificates = builder.build(), certificates
        return self._client

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.close()
