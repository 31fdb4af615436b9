"""The HTTP proxy through which programs of Pods reach Services by name.

Every HTTP client knows `http_proxy`: curl, Go's, Python's. A proxy needs no privilege, no port below 1024 and no change
of the machine's resolver, and a Service's port leads to that of its Pods. The proxy's user names the namespace whose
short names (`http://sink`) are meant. A name without a ready Pod is waited for a while, as long as the client does.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import structlog
from pyreqwest.client import Client
from pyreqwest.exceptions import ConnectError, PyreqwestError
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response as Answer
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from penstock.contract.names import CLUSTER_DOMAIN, Location, NothingThere, service_host
from penstock.workloads.actors.sender import Locate

log = structlog.get_logger()

Reached = TypeVar("Reached")

WAIT_SECONDS = 5.0
AGAIN_SECONDS = 0.1
MOST_BYTES = 64 * 1024 * 1024
HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are between the client and the proxy."""


class NameProxy:
    """An ASGI application. `direct` leads to the names of the cluster, `outside` to all others."""

    def __init__(self, locate: Locate, direct: Client, outside: Client) -> None:
        self._locate, self._direct, self._outside = locate, direct, outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "CONNECT":
            return PlainTextResponse("only http:// is known to this proxy: https_proxy names the other\n", 405)
        try:
            body = await _body(request)
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 413)
        try:
            streamed, answer = await self._send(request, body)
        except NothingThere as error:
            return PlainTextResponse(f"{error}\n", 503)
        except PyreqwestError as error:
            return PlainTextResponse(f"{error}\n", 502)
        headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP]
        response = StreamingResponse(_stream(streamed, answer), answer.status)
        response.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return response

    async def _send(self, request: Request, body: bytes) -> tuple[StreamRequest, Answer]:
        """The answer. Raises NothingThere, or what the client fails with."""

        async def answered(location: Location) -> tuple[StreamRequest, Answer]:
            streamed = self._request(request, location, body)
            return streamed, await streamed.__aenter__()

        namespace = namespace_of(request.headers.get("proxy-authorization", ""))
        return await reached(self._locate, url_of(request), namespace, answered, ConnectError)

    def _request(self, request: Request, location: Location, body: bytes) -> StreamRequest:
        known = location.host is not None
        built = (self._direct if known else self._outside).request(request.method, location.url)
        skipped = HOP_BY_HOP | {"host", "content-length"}
        built = built.headers([(name, value) for name, value in request.headers.items() if name not in skipped])
        if location.host is not None:
            built = built.header("Host", location.host)
        if body or request.method in ("POST", "PUT", "PATCH"):
            built = built.body_bytes(body)
        return built.build_streamed()


async def reached(
    locate: Locate,
    url: str,
    namespace: str,
    connect: Callable[[Location], Awaitable[Reached]],
    fault: type[Exception],
) -> Reached:
    """What `connect` finds where the URL leads; a Service that has nothing ready, or where it fails with `fault`, is
    tried for a while. Raises NothingThere, or what `connect` failed with."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while True:
        known = True
        try:
            location = place(locate, url, namespace)
            known = location.host is not None
            return await connect(location)
        except (NothingThere, fault):
            if not known or asyncio.get_running_loop().time() >= deadline:
                raise
        await asyncio.sleep(AGAIN_SECONDS)


def place(locate: Locate, url: str, namespace: str) -> Location:
    """Where the URL leads for a Pod of the namespace. Raises NothingThere."""
    for candidate in spellings(url, namespace):
        location = locate(candidate)
        if location.url != candidate:
            return Location(location.url, urlsplit(url).netloc.rpartition("@")[2])
    if is_cluster_name(url):
        raise NothingThere(f"no such host: there is no Service {urlsplit(url).hostname}")
    return Location(url)


def url_of(request: Request) -> str:
    """What the client asked for. Its Host is that of the URL, as HTTP demands of requests to a proxy."""
    path = request.scope["raw_path"].decode("latin-1") or "/"
    query = request.scope["query_string"].decode("latin-1")
    return f"http://{request.headers.get('host', '')}{path}{f'?{query}' if query else ''}"


def namespace_of(authorization: str) -> str:
    """The namespace that a program's `http_proxy` names as user; empty where it names none."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def spellings(url: str, namespace: str) -> list[str]:
    """The URL as it may be meant: with the name of a Service of the namespace, or as it is written."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not namespace or not host or "." in host:
        return [url]
    port = f":{parts.port}" if parts.port else ""
    return [parts._replace(netloc=f"{service_host(host, namespace)}{port}").geturl(), url]


def is_cluster_name(url: str) -> bool:
    """Whether only this cluster can know the name."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host.endswith((".svc", f".svc.{CLUSTER_DOMAIN}"))


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError(f"requests through this proxy have at most {MOST_BYTES} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _stream(streamed: StreamRequest, answer: Answer) -> AsyncIterator[bytes]:
    try:
        while (chunk := await answer.body_reader.read_chunk()) is not None:
            yield bytes(chunk)
    finally:
        await streamed.__aexit__(None, None, None)
