"""HTTP servers in the loop that is running, for the actors and for the proxy of names."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

import uvicorn
from starlette.types import ASGIApp

TakeListener = Callable[[int], socket.socket | None]
"""A socket that listens at a port of the Pod; None when somebody else does."""


class PortTaken(Exception):
    """Somebody else listens there; the text says where."""


class WorkloadServer:
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


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    ports: Mapping[int, ssl.SSLContext | None],
    take_listener: TakeListener,
    grace: Callable[[], float],
) -> AsyncIterator[None]:
    """Serves at ports of the Pod, over TLS where they have a certificate. `grace` is asked for at the end, and is what
    requests under way then have. Raises PortTaken."""
    async with contextlib.AsyncExitStack() as servers:

        async def end(server: WorkloadServer) -> None:
            await server.stop(grace())

        for port, tls in ports.items():
            listener = take_listener(port)
            if listener is None:
                raise PortTaken(
                    f"listen tcp :{port}: somebody else listens there, such as another container of the Pod"
                )
            server = WorkloadServer(app, listener, tls)
            await server.start()
            servers.push_async_callback(end, server)
        yield
