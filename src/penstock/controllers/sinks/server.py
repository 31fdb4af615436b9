"""An HTTP server on loopback, in the loop that is running."""

from __future__ import annotations

import asyncio
import socket
import ssl

import uvicorn
from starlette.types import ASGIApp

GRACE_SECONDS = 5


class SinkServer:
    """Serves an application at a free port of 127.0.0.1."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the certificate that is shown to clients, where they have to speak it."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    @property
    def address(self) -> str:
        """`host:port` that it listens at."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    async def run(self) -> None:
        """Serves until cancelled; requests under way are finished."""
        await self._server.startup(sockets=[self._listener])
        try:
            await asyncio.Event().wait()
        finally:
            await self._server.shutdown(sockets=[self._listener])
