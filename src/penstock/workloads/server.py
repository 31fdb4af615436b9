"""An HTTP server in the loop that is running, for the actors and for the proxy of names."""

from __future__ import annotations

import socket
import ssl

import uvicorn
from starlette.types import ASGIApp


class Server:
    """Serves an application on a socket that already listens, in the loop that is running."""

    def __init__(self, app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the certificate that is shown to clients, where they have to speak it."""
        config = uvicorn.Config(
            app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._listener = listener

    async def start(self) -> None:
        """Accepts connections from now on."""
        await self._server.startup(sockets=[self._listener])

    async def stop(self, grace: float) -> None:
        """Accepts no more, lets requests under way finish for `grace` seconds, then cuts them off."""
        self._server.config.timeout_graceful_shutdown = max(int(grace), 1)
        await self._server.shutdown(sockets=[self._listener])
