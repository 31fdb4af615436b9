"""HTTP servers in the loop that is running, for the actors and for the proxy of names."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.requests import Request
from starlette.types import ASGIApp

from penstock.web.server import HttpServer

TakeListener = Callable[[int], socket.socket | None]
"""A socket that listens at a port of the Pod; None when somebody else does."""


class BodyTooLarge(Exception):
    """The request has more bytes than are taken."""


async def body_of(request: Request, most_bytes: int) -> bytes:
    """The body of a request; never more than so many bytes of it are kept. Raises BodyTooLarge."""
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes:
            raise BodyTooLarge(f"requests have at most {most_bytes} bytes here")
        parts.append(chunk)
    return b"".join(parts)


class PortTaken(Exception):
    """Somebody else listens there; the text says where."""


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

        async def end(server: HttpServer) -> None:
            await server.stop(grace())

        for port, tls in ports.items():
            listener = take_listener(port)
            if listener is None:
                raise PortTaken(
                    f"listen tcp :{port}: somebody else listens there, such as another container of the Pod"
                )
            server = HttpServer(app, listener, tls)
            await server.start()
            servers.push_async_callback(end, server)
        yield
