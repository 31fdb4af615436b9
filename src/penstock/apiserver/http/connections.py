"""Connections with bounds: little may wait to be sent on one, and a client that does not read is cut off.

Over TLS the event loop would let half a megabyte wait per connection before it asks to slow down; with thousands of
watches that is gigabytes held for clients that may never read.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

WAITING_BYTES = 16 * 1024
STALLED_SECONDS = 30.0


class BoundedConnection(HttpToolsProtocol):
    """One client's connection."""

    _cut: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Lowers the mark at which senders wait."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WAITING_BYTES)

    def pause_writing(self) -> None:
        """The client is slow: senders wait, for a while."""
        super().pause_writing()
        self._cut = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._keep()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; a waiting sender learns of it."""
        self._keep()
        super().connection_lost(exc)

    def _keep(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None
