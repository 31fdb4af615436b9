"""Where a request goes: a URL taken apart once into what a connection and a request line need."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.web.tls_clients import ClientCertificate

_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Whom a connection is with; requests to the same origin share connections."""

    host: str
    port: int
    tls_name: str | None
    """The name that the certificate must carry; None without TLS."""
    ca_certs: str | None
    zone: str = ""
    """Whose rules say where a connection may lead: one namespace must not use what only another may make."""
    certificate: ClientCertificate | None = None
    """What is shown to who asks who we are: one route must not use what was made in the name of another."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class HttpAddress(NamedTuple):
    """An origin, and the beginning of every request to one URL there."""

    origin: Origin
    opening: bytes
    """Request line, and the headers that are the same in every request."""


@lru_cache(maxsize=4096)
def address(
    url: str, named: str | None, ca_certs: str | None, zone: str = "", certificate: ClientCertificate | None = None
) -> HttpAddress:
    """The address behind a URL that is asked for by its own name or another. Raises ValueError where it is none."""
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f"its scheme is {parts.scheme!r}, not http or https")
    if not parts.hostname:
        raise ValueError("it names no host")
    host = _ascii(parts.hostname)
    tls_name = None
    if parts.scheme == "https":
        tls_name = host if named is None else _ascii(urlsplit(f"//{named}").hostname or "")
    if tls_name is None:
        ca_certs = certificate = None
    origin = Origin(host, parts.port or _DEFAULT_PORTS[parts.scheme], tls_name, ca_certs, zone, certificate)
    lines = [
        f"POST {_request_target(parts)} HTTP/1.1",
        f"host: {named or _host_header(parts, host)}",
        "user-agent: penstock",
        "accept-encoding: gzip",
    ]
    if parts.username is not None:
        lines.append(f"authorization: Basic {_credentials(parts)}")
    if any(not line.isascii() or not line.isprintable() for line in lines):
        raise ValueError("it has characters that no address has")
    return HttpAddress(origin, "".join(f"{line}\r\n" for line in lines).encode())


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode()


def _host_header(parts: SplitResult, host: str) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if parts.port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{name}:{parts.port}"


def _request_target(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_VISIBLE)
    return f"{path}?{quote(parts.query, safe=_VISIBLE)}" if parts.query else path


def _credentials(parts: SplitResult) -> str:
    return base64.b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()).decode()
