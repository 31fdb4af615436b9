"""The CONNECT proxy (`https_proxy`) through which programs of Pods reach Services by name over TLS.

TLS is end-to-end between the program and the Service; the proxy only forwards bytes. Hosts outside the cluster are
connected to directly. It requires the same password as the HTTP proxy, for the same reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from urllib.parse import urlsplit

from penstock.contract.names import Location, NothingThere
from penstock.runtime.sockets import bound_socket
from penstock.workloads.proxy import CHALLENGE, UNAUTHORIZED, Locate, connect_with_retry, namespace_of

HEAD_SECONDS = 10.0
"""Limit for the request head."""
CONNECT_SECONDS = 10.0
LONGEST_HEAD = 16 * 1024
CHUNK = 64 * 1024


class TunnelRefused(Exception):
    """The tunnel is refused with an HTTP status."""

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
        """Serves on a free port; its URL."""
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
        task = asyncio.create_task(self._serve_client(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        task.add_done_callback(lambda _: writer.close())  # also if it is cancelled before it began

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # either side may close the connection
            async with _closing(writer):
                try:
                    url, namespace = await _read_request(reader, self._password)
                    far_reader, far_writer = await self._connected(url, namespace)
                except TunnelRefused as refusal:
                    writer.write(_refusal_response(refusal))
                    return
                async with _closing(far_writer):
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await asyncio.gather(_forward(reader, far_writer), _forward(far_reader, writer))

    async def _connected(self, url: str, namespace: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection. Raises TunnelRefused."""
        try:
            return await connect_with_retry(self._locate, url, namespace, _connection, OSError)
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


def _refusal_response(refusal: TunnelRefused) -> bytes:
    text = f"{refusal}\n".encode()
    head = f"HTTP/1.1 {refusal.status} {refusal.status.phrase}\r\ncontent-type: text/plain\r\n"
    if refusal.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        head += f"proxy-authenticate: {CHALLENGE}\r\n"
    return head.encode() + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(text) + text


async def _read_request(reader: asyncio.StreamReader, password: str) -> tuple[str, str]:
    """The requested URL, and the namespace for short names. Raises TunnelRefused."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise TunnelRefused(HTTPStatus.BAD_REQUEST, "invalid HTTP request") from error
    opening, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    namespace = namespace_of(headers.get("proxy-authorization", ""), password)
    if namespace is None:
        raise TunnelRefused(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, UNAUTHORIZED)
    method, target = [*opening.split(" "), "", ""][:2]
    if method != "CONNECT":
        raise TunnelRefused(
            HTTPStatus.METHOD_NOT_ALLOWED, "this proxy only supports CONNECT; http_proxy has the one for http://"
        )
    url = f"https://{target}"
    try:
        if not urlsplit(url).hostname or not urlsplit(url).port:
            raise ValueError("no host and port")
    except ValueError as error:
        raise TunnelRefused(HTTPStatus.BAD_REQUEST, f"{target} is not a host and port: {error}") from error
    return url, namespace


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
