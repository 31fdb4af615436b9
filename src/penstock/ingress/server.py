"""The HTTP server under the application: uvicorn on a shared port, with an end that loses nobody.

The end has phases: stop accepting connections; answer what comes on the open ones with `Connection: close`, so that
busy clients leave by themselves; close what is idle; wait for requests under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.ingress.app import HEAD_BYTES, Ingress

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 120
LEAVE_SECONDS = 0.3
"""Time for busy clients to leave before idle connections are closed."""


class BoundedHead(HttpToolsProtocol):
    """The HTTP protocol with a limit on headers that never end: the parser alone would collect them without bound."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("The headers are too large.")


class Server(uvicorn.Server):
    """uvicorn, started and ended by the component and not by signals."""

    def __init__(self, app: Ingress, drain_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedHead,
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(drain_seconds)),
            )
        )
        self._app = app

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs the component."""
        yield

    async def end(self) -> None:
        """Lets clients leave, then makes `serve` return once every request is answered."""
        for listener in self.servers:
            listener.close()
        self._app.draining = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEAVE_SECONDS
        while self.server_state.connections and loop.time() < deadline:  # noqa: ASYNC110  # uvicorn announces no leaving
            await asyncio.sleep(0.01)
        self.should_exit = True


def shared_socket(host: str, port: int) -> socket.socket:
    """A listening address that other ingress processes may have too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what it accepts; without it every answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    listening.setblocking(False)
    return listening
