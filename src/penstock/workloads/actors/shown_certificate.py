"""The certificate of a built-in program's server: made by the node, which alone has the authority's key.

The program asks for it regularly, so that it shows the next one before the current one expires.
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
    """What a server shows."""

    def __init__(self, ask: Callable[[], Awaitable[Pair]], log: Callable[[str], None]) -> None:
        """`ask` raises NodeRefused; `tell` writes to the log."""
        super().__init__()
        self._ask, self._log = ask, log
        self._shown: Pair | None = None

    async def look(self) -> None:
        """Shows the certificate as it is now to connections from now on. Raises NodeRefused."""
        pair = await self._ask()
        if pair != self._shown:
            await asyncio.to_thread(self.show, pair.certificate.encode(), pair.key.encode())
            self._shown = pair

    async def run(self) -> None:
        """Looks again and again; what fails is told once, and the certificate stays as it is."""
        last_error = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
                last_error = ""
            except NodeRefused as error:
                if str(error) != last_error:
                    self._log(f"the certificate stays as it is: {error}")
                last_error = str(error)
