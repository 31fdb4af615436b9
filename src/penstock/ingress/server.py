"""The HTTP server: connections on a shared port, what they share, and a shutdown that cuts no request off.

The shutdown has phases: stop accepting connections; respond on the open ones with `Connection: close`, so that
busy clients leave by themselves; close what is idle; wait for requests under way.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from email.utils import formatdate

import structlog

from penstock.ingress.connection import Application, Connection, OverloadedConnection
from penstock.ingress.tls_handshake import TlsAcceptor
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

BACKLOG = 2048
MAX_OVERLOADED = 256
"""Connections beyond the limit that get a 503 at the same time; more are closed without a response."""
OTHER_FILES = 128
"""Open files of the process that are not connections of producers."""
LOOK_SECONDS = 1.0
LEAVE_SECONDS = 0.3
"""Time for busy clients to leave before idle connections are closed."""
_PAUSE_SECONDS = 0.01

log = structlog.get_logger()


class IngressServer:
    """Listens, creates the connections, and closes them."""

    def __init__(self, app: Application, settings: Settings, scope: TaskScope) -> None:
        self._app, self._scope, self._drain_seconds = app, scope, settings.drain_seconds
        self._max_connections = settings.max_connections
        # An event of the largest size can be accepted, whatever the settings say.
        self.max_held_bytes = max(settings.max_arriving_mib * 1024 * 1024, settings.max_event_bytes * 2)
        self.held_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._listener: asyncio.Server | None = None
        self.tls_acceptor: TlsAcceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.connections: set[Connection] = set()
        self.overloaded: set[OverloadedConnection] = set()
        self.now, self.date = 0.0, b""
        self._look()

    async def start(self, plain: socket.socket, secure: socket.socket, tls: ssl.SSLContext) -> None:
        """Accepts connections from now on, over HTTP and HTTPS."""
        self._max_connections = allowed_connections(self._max_connections)
        self._listener = await self._loop.create_server(self._connection, sock=plain, backlog=BACKLOG)
        self.tls_acceptor = TlsAcceptor(tls, self._connection, self._handshake_capacity)
        self.tls_acceptor.start(secure, BACKLOG, self._scope)

    def _handshake_capacity(self) -> int:
        """How many TLS handshakes may be pending: as many as there may be connections, with those that get a 503."""
        return self._max_connections + MAX_OVERLOADED - len(self.connections)

    def _connection(self) -> asyncio.Protocol:
        if len(self.connections) < self._max_connections:
            return Connection(self._app, self)
        if len(self.overloaded) >= MAX_OVERLOADED:
            next(iter(self.overloaded)).abort()
        return OverloadedConnection(self._app, self)

    async def end(self) -> None:
        """Lets clients leave; returns when every request is answered, or the time for it is over."""
        if self._listener is not None:
            self._listener.close()
        if self.tls_acceptor is not None:
            await self.tls_acceptor.end()
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
        for connection in tuple(self.connections):
            connection.abort()
        for refusal in tuple(self.overloaded):
            refusal.abort()
        if self._timer is not None:
            self._timer.cancel()

    async def _until_left(self, deadline: float) -> None:
        while self.connections and self._loop.time() < deadline:  # noqa: ASYNC110  # connections announce no leaving
            await asyncio.sleep(_PAUSE_SECONDS)

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._scope.call, self._look)
        self.now, self.date = self._loop.time(), b"date: " + formatdate(usegmt=True).encode() + b"\r\n"
        for connection in tuple(self.connections):
            connection.look(self.now)
        for refusal in tuple(self.overloaded):
            refusal.look(self.now)


def allowed_connections(wanted: int) -> int:
    """As many of the wanted connections as the system has files for; its limit is raised where that is allowed."""
    needed = wanted + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    files = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    except (OSError, ValueError):  # some systems have a lower limit that they do not report
        files = soft
    if files < needed:
        log.warning("the limit of open files allows fewer connections than max_connections", files=files, wanted=wanted)
    return min(wanted, max(1, files - OTHER_FILES))
