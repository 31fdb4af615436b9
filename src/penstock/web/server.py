"""HTTP servers: uvicorn with the same settings everywhere, in the running event loop.

A client that disconnects before its request is complete is not an error of the server, and is not logged as one.
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
"""How long a connection may be idle."""
SHORTEST_GRACE_SECONDS = 1


def listen(lifecycle: Lifecycle, component: str, host: str, port: int, setting: str) -> socket.socket:
    """The socket of a component. If it is not available, the component fails and names its setting. Raises OSError."""
    try:
        return bound_socket(host, port)
    except OSError as error:
        lifecycle.fail(f"{component} {error.strerror}; free the port or choose another with {setting}")
        raise


class HttpServer(uvicorn.Server):
    """Serves an application at a socket. Unlike uvicorn's own runner, it installs no signal handlers."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        connection: type[asyncio.Protocol] | None = None,
        most_connections: int | None = None,
    ) -> None:
        """`tls` has the server's certificate; `connection` replaces uvicorn's protocol class; connections beyond
        `most_connections` get 503."""
        config = uvicorn.Config(
            _without_disconnects(app),
            http=connection or "auto",
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Not trusted: any process of the machine could claim another client address in a header.
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
        """Accepts connections inside the context, and keeps the Date header current; leaves by `stop`."""
        await self.on_tick(0)
        await self.start()
        clock = asyncio.create_task(self._update_date(), name=f"date of {self.address}")
        try:
            yield
        finally:
            clock.cancel()
            await self.stop(grace)

    async def start(self) -> None:
        """Accepts connections from now on."""
        await self.startup(sockets=[self._listener])

    async def stop(self, grace: float) -> None:
        """Accepts no more connections, gives running requests `grace` seconds to finish, then aborts them."""
        self.config.timeout_graceful_shutdown = max(SHORTEST_GRACE_SECONDS, round(grace))
        await self.shutdown(sockets=[self._listener])
        # Otherwise a client that does not complete the TLS shutdown would keep its connection open.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _update_date(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self.on_tick(0)


def _without_disconnects(app: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return serve
