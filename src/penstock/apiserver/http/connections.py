"""Connections with limits: time for a request's head and body to arrive, the size of the head, the write buffer, and
time for a client that does not read.

Over TLS the event loop would buffer half a megabyte per connection before it pauses the writer; with thousands of
watches that is gigabytes held for clients that may never read.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

WAITING_BYTES = 16 * 1024
STALLED_SECONDS = 30.0
HEAD_BYTES = 64 * 1024
"""Address and headers of a request together."""
HEAD_SECONDS = 10.0
"""Time for a head to arrive, from its first byte."""
SPARE_SECONDS = 30.0
"""Time that a new connection may be idle: clients keep spare ones."""
BODY_SECONDS = 60.0
"""Time for a body to arrive once its head has."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(HttpToolsProtocol):
    """One client's connection."""

    _cut: asyncio.TimerHandle | None = None
    _arrival: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Lowers the high-water mark of the write buffer."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WAITING_BYTES)
        # Closed without a response: a client that sends a request at this moment would take one for its own.
        self._expect_within(SPARE_SECONDS, else_send=b"")

    def data_received(self, data: bytes) -> None:
        """Limits the head: the parser alone would collect headers without end."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._end_with(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._expect_within(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """The head of the request is complete."""
        self._in_head = False
        self._expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._expect_no_more()
        super().on_message_complete()

    def _expect_within(self, seconds: float, else_send: bytes = _TOO_SLOW) -> None:
        self._expect_no_more()
        self._arrival = self.loop.call_later(seconds, self._end_with, else_send)

    def _expect_no_more(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _end_with(self, response: bytes) -> None:
        """Closes the connection, with this response unless another one has started."""
        self._expect_no_more()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(response)
        self.transport.close()

    def pause_writing(self) -> None:
        """The client is slow: it is disconnected after STALLED_SECONDS."""
        super().pause_writing()
        self._cut = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._cancel_cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._cancel_cut()
        self._expect_no_more()
        super().connection_lost(exc)

    def _cancel_cut(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None
