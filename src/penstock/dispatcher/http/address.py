"""A URL as a connection and a request line need it, parsed once."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.web.tls_clients import ClientCertificate

_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The server of a connection, and how it is reached; requests to the same origin share connections."""

    host: str
    port: int
    tls_name: str | None
    """The name that the certificate must carry; None without TLS."""
    ca_certs: str | None
    zone: str = ""
    """The namespace whose rules apply: one namespace must not use a connection that only another may make."""
    certificate: ClientCertificate | None = None
    """The client certificate: one route must not use a connection made with that of another."""

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
    """The address of a URL, requested by its own host name or by `named`. Raises ValueError where it is invalid."""
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f"its scheme is {parts.scheme!r}, not http or https")
    if not parts.hostname:
        raise ValueError("it has no host")
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
        raise ValueError("it has characters that are invalid in a URL")
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
