"""The HTTP server: connections on a shared port, what they have in common, and an end that loses nobody.

The end has phases: stop accepting connections; answer what comes on the open ones with `Connection: close`, so that
busy clients leave by themselves; close what is idle; wait for requests under way.
"""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate

import structlog

from penstock.ingress.connection import Application, Connection

BACKLOG = 2048
LOOK_SECONDS = 1.0
LEAVE_SECONDS = 0.3
"""Time for busy clients to leave before idle connections are closed."""
_PAUSE_SECONDS = 0.01

log = structlog.get_logger()


class Server:
    """Started and ended by the component."""

    def __init__(self, app: Application, drain_seconds: float) -> None:
        self._app, self._drain_seconds = app, drain_seconds
        self._loop = asyncio.get_running_loop()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.connections: set[Connection] = set()
        self.now, self.date = 0.0, b""
        self._look()

    async def start(self, listening: socket.socket) -> None:
        """Accepts connections from now on."""
        self._listener = await self._loop.create_server(
            lambda: Connection(self._app, self), sock=listening, backlog=BACKLOG
        )

    async def end(self) -> None:
        """Lets clients leave; returns when every request is answered, or the time for it is over."""
        if self._listener is not None:
            self._listener.close()
        self._app.draining = True
        deadline = self._loop.time() + self._drain_seconds
        await self._until_left(self._loop.time() + LEAVE_SECONDS)
        while self.connections and self._loop.time() < deadline:
            for connection in list(self.connections):
                if connection.is_idle:
                    connection.close()
            await asyncio.sleep(_PAUSE_SECONDS)
        if self.connections:
            log.error("requests were cut off at the end", connections=len(self.connections))
        for connection in list(self.connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    async def _until_left(self, deadline: float) -> None:
        while self.connections and self._loop.time() < deadline:  # noqa: ASYNC110  # connections announce no leaving
            await asyncio.sleep(_PAUSE_SECONDS)

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        self.now, self.date = self._loop.time(), b"date: " + formatdate(usegmt=True).encode() + b"\r\n"
        for connection in list(self.connections):
            connection.look(self.now)


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
