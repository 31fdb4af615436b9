"""HTTP servers, all of them uvicorn with the same settings, in the loop that is running.

A client may leave before the body of its request is whole. That is no error of the server, and is not logged as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.runtime.lifecycle import Lifecycle
from penstock.runtime.sockets import bound_socket

KEEP_ALIVE_SECONDS = 75
"""For how long a connection may stay without a request."""
SHORTEST_GRACE_SECONDS = 1


def listen(lifecycle: Lifecycle, component: str, host: str, port: int, setting: str) -> socket.socket:
    """The socket of a component; where it cannot be had, the component fails and names its setting. Raises OSError."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        lifecycle.fail(f"{component} {error.strerror}; free the port or choose another with {setting}")
        raise


class HttpServer(uvicorn.Server):
    """Serves an application at a socket. Signals are left to whoever started the process."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        connection: type[asyncio.Protocol] | None = None,
        most_connections: int | None = None,
    ) -> None:
        """`tls` has the certificate that is shown to clients; `connection` treats each of them otherwise than uvicorn
        does; one more than `most_connections` at once is answered by 503."""
        config = uvicorn.Config(
            _without_disconnects(app),
            http=connection or "auto",
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Any process of the machine could name another address in a header; see also `account_of`.
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=most_connections,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        config.load()
        super().__init__(config)
        self.lifespan = config.lifespan_class(config)
        self._listener = listener

    @property
    def address(self) -> str:
        """`host:port` that it listens at."""
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    @contextlib.asynccontextmanager
    async def listening(self, grace: float) -> AsyncIterator[None]:
        """Accepts connections within, and says in each answer what the time is; see `stop` for what follows."""
        await self.on_tick(0)
        await self.start()
        clock = asyncio.create_task(self._tick(), name=f"date of {self.address}")
        try:
            yield
        finally:
            clock.cancel()
            await self.stop(grace)

    async def start(self) -> None:
        """Accepts connections from now on."""
        await self.startup(sockets=[self._listener])

    async def stop(self, grace: float) -> None:
        """Accepts no more, lets requests under way finish for `grace` seconds, then cuts them off."""
        self.config.timeout_graceful_shutdown = max(SHORTEST_GRACE_SECONDS, round(grace))
        await self.shutdown(sockets=[self._listener])
        # A connection whose client does not answer the goodbye of TLS would outlive its server.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self.on_tick(0)


def _without_disconnects(app: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return serve
