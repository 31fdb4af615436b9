"""The proxy through which programs of Pods reach Services by name over TLS: it answers CONNECT, and passes bytes on.

TLS is between the program and the Service, by the Service's own name; nothing of it is seen here. Every client that
knows `http_proxy` also knows `https_proxy`. Names that are not the cluster's are connected to as they are. It asks for
the same password, for the same reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from urllib.parse import urlsplit

from penstock.contract.names import Location, NothingThere
from penstock.runtime.sockets import bound_socket
from penstock.workloads.proxy import CHALLENGE, WHOSE, Locate, namespace_of, reached

HEAD_SECONDS = 10.0
"""For a client to say where it wants to."""
CONNECT_SECONDS = 10.0
LONGEST_HEAD = 16 * 1024
CHUNK = 64 * 1024


class TunnelRefused(Exception):
    """There is no tunnel for this client."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Tunnels:
    """A server of tunnels."""

    def __init__(self, locate: Locate, password: str) -> None:
        self._locate, self._password = locate, password
        self._open: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self, host: str) -> AsyncIterator[str]:
        """Serves at a free port meanwhile; its URL."""
        listener = bound_socket(host, 0)
        server = await asyncio.start_server(self._begin, sock=listener, limit=LONGEST_HEAD)
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._take(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        task.add_done_callback(lambda _: writer.close())  # one that is cancelled before it began has closed nothing

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # either side may go whenever it likes
            async with _closing(writer):
                try:
                    url, namespace = await _asked(reader, self._password)
                    far_reader, far_writer = await self._connected(url, namespace)
                except TunnelRefused as refusal:
                    writer.write(_answer(refusal))
                    return
                async with _closing(far_writer):
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))

    async def _connected(self, url: str, namespace: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection. Raises TunnelRefused."""
        try:
            return await reached(self._locate, url, namespace, _connection, OSError)
        except (NothingThere, OSError) as error:
            nothing = isinstance(error, NothingThere)
            status = HTTPStatus.SERVICE_UNAVAILABLE if nothing else HTTPStatus.BAD_GATEWAY
            raise TunnelRefused(status, f"{urlsplit(url).netloc}: {error}") from error


async def _connection(location: Location) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(location.url)
    async with asyncio.timeout(CONNECT_SECONDS):
        return await asyncio.open_connection(parts.hostname, parts.port or 443)


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        await writer.wait_closed()


def _answer(refusal: TunnelRefused) -> bytes:
    said = f"{refusal}\n".encode()
    head = f"HTTP/1.1 {refusal.status} {refusal.status.phrase}\r\ncontent-type: text/plain\r\n"
    if refusal.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        head += f"proxy-authenticate: {CHALLENGE}\r\n"
    return head.encode() + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(said) + said


async def _asked(reader: asyncio.StreamReader, password: str) -> tuple[str, str]:
    """Where the client wants to, and the namespace that its short names are of. Raises TunnelRefused."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise TunnelRefused(HTTPStatus.BAD_REQUEST, "this is no request") from error
    opening, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    namespace = namespace_of(headers.get("proxy-authorization", ""), password)
    if namespace is None:
        raise TunnelRefused(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, WHOSE)
    method, target = [*opening.split(" "), "", ""][:2]
    if method != "CONNECT":
        raise TunnelRefused(
            HTTPStatus.METHOD_NOT_ALLOWED, "this proxy answers CONNECT: http_proxy names the one of http://"
        )
    url = f"https://{target}"
    try:
        if not urlsplit(url).hostname or not urlsplit(url).port:
            raise ValueError("no host and port")
    except ValueError as error:
        raise TunnelRefused(HTTPStatus.BAD_REQUEST, f"{target} is no address to connect to: {error}") from error
    return url, namespace


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
