"""Checks every request against DNS rebinding and cross-site requests, and sets the security headers of responses.

A page of another site can send requests to a console on this machine, and with a name of its own that resolves to
127.0.0.1 (DNS rebinding) it could even read the responses. So the Host header must have a known name, and each
change must have the console's own origin.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.runtime import hosts

READING = frozenset({"GET", "HEAD"})
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Largest body of a form: an event of the largest usual size, and its other fields."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on this address."""
    return hosts.is_loopback(host.lower().strip("[]"))


def names_of(host: str, more: Collection[str] = ()) -> frozenset[str]:
    """The accepted names in Host headers for a console that listens on `host`. IP addresses are always accepted."""
    names = {"localhost", host.lower(), *(name.lower() for name in more)}
    if not is_loopback(host):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def refused_host(header: str | None, names: Collection[str]) -> str | None:
    """Why a `Host` header is refused; None where it is accepted. IP addresses cannot be rebound by DNS."""
    try:
        name = urlsplit(f"//{header or ''}").hostname or ""
    except ValueError:
        name = ""
    if name in names:
        return None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return (
            f"Unknown host name {name!r}. If it is one of yours, add it to the setting console_hosts."
            if name
            else "The request has no Host header."
        )
    return None


def refused_origin(method: str, headers: Mapping[str, str]) -> str | None:
    """Why a request is rejected as cross-site; None if it is accepted.

    All current browsers send `Sec-Fetch-Site`, and `Origin` with changes. A change without either is rejected.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in READING:
        foreign = site == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        return "Pages of other sites may not read the console." if foreign else None
    if site is not None and site not in ("same-origin", "none"):
        return "Cross-site request: changes are accepted only from the console's own pages."
    if origin is not None:
        own = headers.get("host", "").lower()
        return (
            None
            if urlsplit(origin).netloc.lower() == own
            else "Cross-site request: changes are accepted only from the console's own pages."
        )
    return None if site == "same-origin" else "The request has no Origin header."


class ConsoleGuard:
    """Middleware that rejects such requests and sets the security headers."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                headers.setdefault("Referrer-Policy", "same-origin")
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, why = refusal
            await PlainTextResponse(f"{why}\n", status)(scope, receive, send_with_headers)
            return
        await self._app(scope, _limited(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if (why := refused_host(headers.get("host"), self._names)) is not None:
            return 421, why
        if (why := refused_origin(scope["method"], headers)) is not None:
            return 403, why
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return 413, f"The request is larger than {MAX_BODY_BYTES} bytes."
        return None


def _limited(receive: Receive) -> Receive:
    """Limits a body without a Content-Length: beyond the limit the request is disconnected."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return message if taken <= MAX_BODY_BYTES else {"type": "http.disconnect"}

    return limited
