"""The HTTP proxy through which programs of Pods reach Services by name.

HTTP clients support `http_proxy`: curl, Go's, Python's. A proxy needs no privileges, no port below 1024 and no change
of the machine's resolver, and it maps a Service's port to that of its Pods. The user name for the proxy is the
namespace for short names (`http://sink`). If a Service has no ready Pod, the proxy retries for some seconds.

Only programs of Pods know the password. The proxy connects with the rights of penstock's user; other users and built-in
programs could otherwise reach addresses that they may not use.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
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
from penstock.events.http import HOP_BY_HOP
from penstock.workloads.server import BodyTooLarge, body_of

log = structlog.get_logger()

Reached = TypeVar("Reached")
Locate = Callable[[str], Location]
"""Resolves a URL. Raises NothingThere."""

WAIT_SECONDS = 5.0
AGAIN_SECONDS = 0.1
MOST_BYTES = 64 * 1024 * 1024

CHALLENGE = 'Basic realm="penstock"'
UNAUTHORIZED = "this proxy is for programs of Pods, which find its password in http_proxy and https_proxy"


class NameProxy:
    """An ASGI application. `direct` is the client for Services of the cluster, `outside` for all other hosts."""

    def __init__(self, locate: Locate, password: str, direct: Client, outside: Client) -> None:
        self._locate, self._password, self._direct, self._outside = locate, password, direct, outside
        self.via = f"1.1 penstock-{secrets.token_hex(8)}"
        """The `Via` header for requests, by which a loop is detected."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        namespace = namespace_of(request.headers.get("proxy-authorization", ""), self._password)
        if namespace is None:
            return PlainTextResponse(f"{UNAUTHORIZED}\n", 407, {"proxy-authenticate": CHALLENGE})
        if request.method == "CONNECT":
            return PlainTextResponse("this proxy is for http:// only; https_proxy has the one for https://\n", 405)
        if any(self.via in line for line in request.headers.getlist("via")):
            return PlainTextResponse("the request leads back to this proxy\n", 508)
        return await self._forward(request, namespace)

    async def _forward(self, request: Request, namespace: str) -> Response:
        try:
            streamed, upstream = await self._send(request, await body_of(request, MOST_BYTES), namespace)
        except BodyTooLarge as error:
            return PlainTextResponse(f"{error}\n", 413)
        except NothingThere as error:
            return PlainTextResponse(f"{error}\n", 503)
        except PyreqwestError as error:
            return PlainTextResponse(f"{error}\n", 502)
        headers = [(name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP]
        response = StreamingResponse(_stream(streamed, upstream), upstream.status)
        response.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return response

    async def _send(self, request: Request, body: bytes, namespace: str) -> tuple[StreamRequest, Answer]:
        """The response. Raises NothingThere, or errors of the client."""

        async def send_to(location: Location) -> tuple[StreamRequest, Answer]:
            streamed = self._request(request, location, body)
            return streamed, await streamed.__aenter__()

        return await connect_with_retry(self._locate, url_of(request), namespace, send_to, ConnectError)

    def _request(self, request: Request, location: Location, body: bytes) -> StreamRequest:
        known = location.host is not None
        built = (self._direct if known else self._outside).request(request.method, location.url)
        skipped = HOP_BY_HOP | {"host", "content-length"}
        built = built.headers([(name, value) for name, value in request.headers.items() if name not in skipped])
        built = built.header("Via", self.via)
        if location.host is not None:
            built = built.header("Host", location.host)
        if body or request.method in ("POST", "PUT", "PATCH"):
            built = built.body_bytes(body)
        return built.build_streamed()


async def connect_with_retry(
    locate: Locate,
    url: str,
    namespace: str,
    connect: Callable[[Location], Awaitable[Reached]],
    fault: type[Exception],
) -> Reached:
    """The result of `connect` for the location of the URL.

    For Services it is retried for some seconds after NothingThere and `fault`. Raises NothingThere, or errors of
    `connect`.
    """
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while True:
        known = True
        try:
            location = locate_for(locate, url, namespace)
            known = location.host is not None
            return await connect(location)
        except (NothingThere, fault):
            if not known or asyncio.get_running_loop().time() >= deadline:
                raise
        await asyncio.sleep(AGAIN_SECONDS)


def locate_for(locate: Locate, url: str, namespace: str) -> Location:
    """The location of the URL for a Pod of the namespace. Raises NothingThere."""
    for candidate in spellings(url, namespace):
        location = locate(candidate)
        if location.url != candidate:
            return Location(location.url, urlsplit(url).netloc.rpartition("@")[2])
    if is_cluster_name(url):
        raise NothingThere(f"no such host: there is no Service {urlsplit(url).hostname}")
    return Location(url)


def url_of(request: Request) -> str:
    """The requested URL. Requests to a proxy have the host of the URL as Host header."""
    path = request.scope["raw_path"].decode("latin-1") or "/"
    query = request.scope["query_string"].decode("latin-1")
    return f"http://{request.headers.get('host', '')}{path}{f'?{query}' if query else ''}"


def namespace_of(authorization: str, password: str) -> str | None:
    """The namespace, which is the user name in `http_proxy`; None for a wrong password."""
    scheme, _, credentials = authorization.partition(" ")
    try:
        namespace, _, given = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeError):
        return None
    is_right = scheme.lower() == "basic" and secrets.compare_digest(given.encode(), password.encode())
    return namespace if is_right else None


def spellings(url: str, namespace: str) -> list[str]:
    """The URLs to try: with a short name as a Service of the namespace, and unchanged."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not namespace or not host or "." in host:
        return [url]
    port = f":{parts.port}" if parts.port else ""
    return [parts._replace(netloc=f"{service_host(host, namespace)}{port}").geturl(), url]


def is_cluster_name(url: str) -> bool:
    """Whether the host is a Service name of the cluster."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host.endswith((".svc", f".svc.{CLUSTER_DOMAIN}"))


async def _stream(streamed: StreamRequest, upstream: Answer) -> AsyncIterator[bytes]:
    try:
        while (chunk := await upstream.body_reader.read_chunk()) is not None:
            yield bytes(chunk)
    finally:
        await streamed.__aexit__(None, None, None)
