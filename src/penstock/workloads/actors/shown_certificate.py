"""The server certificate of a built-in program. Only the node has the CA's key, so the node creates it.

The program requests it regularly, so that it has the next one before the current one expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from penstock.web.tls_context import RenewedContext
from penstock.workloads.actors.node_line import NodeRefused

LOOK_SECONDS = 10.0


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class ShownCertificate(RenewedContext):
    """The TLS context of a server."""

    def __init__(self, ask: Callable[[], Awaitable[Pair]], log: Callable[[str], None]) -> None:
        """`ask` raises NodeRefused; `log` writes to the log."""
        super().__init__()
        self._ask, self._log = ask, log
        self._shown: Pair | None = None

    async def look(self) -> None:
        """Uses the current certificate for new connections. Raises NodeRefused."""
        pair = await self._ask()
        if pair != self._shown:
            await asyncio.to_thread(self.show, pair.certificate.encode(), pair.key.encode())
            self._shown = pair

    async def run(self) -> None:
        """Renews the certificate regularly. An error is logged once, and the certificate stays the same."""
        last_error = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
                last_error = ""
            except NodeRefused as error:
                if str(error) != last_error:
                    self._log(f"the certificate could not be renewed: {error}")
                last_error = str(error)
