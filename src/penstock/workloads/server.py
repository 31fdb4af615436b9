"""HTTP servers at ports of a Pod, for built-in programs, and request bodies of limited size."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.requests import Request
from starlette.types import ASGIApp

from penstock.web.server import HttpServer

TakeListener = Callable[[int], socket.socket | None]
"""Listens on a port of the Pod; None if the port is in use."""


class BodyTooLarge(Exception):
    """The request body is too large."""


async def body_of(request: Request, most_bytes: int) -> bytes:
    """The body of a request with at most so many bytes. Raises BodyTooLarge."""
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes:
            raise BodyTooLarge(f"requests have at most {most_bytes} bytes here")
        parts.append(chunk)
    return b"".join(parts)


class PortTaken(Exception):
    """The port is in use."""


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    ports: Mapping[int, ssl.SSLContext | None],
    take_listener: TakeListener,
    grace: Callable[[], float],
) -> AsyncIterator[None]:
    """Serves at ports of the Pod, with TLS if there is a context. `grace` returns the seconds for open requests at the
    end. Raises PortTaken."""
    async with contextlib.AsyncExitStack() as servers:

        async def end(server: HttpServer) -> None:
            await server.stop(grace())

        for port, tls in ports.items():
            listener = take_listener(port)
            if listener is None:
                raise PortTaken(f"listen tcp :{port}: the port is in use, such as by another container of the Pod")
            server = HttpServer(app, listener, tls)
            await server.start()
            servers.push_async_callback(end, server)
        yield
