"""HTTP to subscribers: pooled connections, no redirects, and never more of an answer in memory than it is worth.

A client per set of trusted certificates. A name of the snapshot is connected to at its address while the request keeps
the name as its Host; over TLS the certificate is checked against the name, not the address.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import BuilderError, PyreqwestError, RequestTimeoutError

from penstock.contract.names import Location, NameTable, NothingThere
from penstock.contract.routes import Endpoint
from penstock.dispatcher.classify import may_carry_reply
from penstock.events import http

IGNORED_BODY_BYTES = 64 * 1024
"""How much of an unneeded body is read so that the connection can be used again; beyond that it is closed."""

IDLE_CONNECTION = timedelta(seconds=1.5)
"""Connections unused for this long are closed here, before the servers in common use (2 to 5 seconds) close them: a
request that crosses such a close would fail for nothing."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_ClientKey = tuple[str | None, str | None, str | None]


class Unsendable(ValueError):
    """The request can not be made, now or ever: the address or a header is invalid."""


class NoAnswer(Exception):
    """No answer came; the request may or may not have arrived."""


class Answer:
    """What came back."""

    __slots__ = ("body", "cut", "headers", "retry_after", "status")

    def __init__(
        self, status: int, headers: dict[str, str], body: bytes, cut: bool, retry_after: str | None = None
    ) -> None:
        self.status, self.headers, self.body = status, headers, body
        self.cut = cut
        """Whether the body was longer than what was read."""
        self.retry_after = retry_after


class Clients:
    """All HTTP clients of a task."""

    def __init__(self, max_event_bytes: int) -> None:
        self._clients: dict[_ClientKey, Client] = {}
        self._names = NameTable()
        self._left_to_dns: dict[str, Location] = {}
        """Addresses that the present names do not know, which is most of them: looked up once."""
        # A structured event may carry its data in base64, and some attributes.
        self._event_limit = max_event_bytes * 4 // 3 + IGNORED_BODY_BYTES

    async def post(
        self,
        endpoint: Endpoint,
        names: NameTable,
        headers: list[tuple[str, str]],
        body: bytes,
        *,
        seconds: float,
        reply_counts: bool,
    ) -> Answer:
        """Sends one request. Raises NoAnswer or Unsendable."""
        location = self._locate(endpoint.url, names)
        client, url = self._client_for(endpoint, location)
        try:
            request = client.post(url).headers(headers).body_bytes(body).timeout(_duration(seconds))
            if location.host is not None:
                request = request.header("host", location.host)
            built = request.build_streamed()
        except (BuilderError, ValueError, OverflowError) as error:
            raise Unsendable(f"the request to {endpoint.url} cannot be made: {error}") from error
        try:
            async with built as response:
                status = response.status
                reader = response.body_reader
                if status == 202 or not reply_counts:
                    answered: dict[str, str] = {}
                else:
                    answered = _folded(response.headers.items()) if may_carry_reply(status) else {}
                limit = self._event_limit if answered and http.is_event(answered) else IGNORED_BODY_BYTES
                chunks, size = [], 0
                while size <= limit:
                    chunk = await reader.read_chunk()
                    if chunk is None:
                        break
                    chunks.append(bytes(chunk))
                    size += len(chunk)
                retry_after = response.get_header("retry-after") if status in (429, 503) else None
                return Answer(status, answered, b"".join(chunks), size > limit, retry_after)
        except RequestTimeoutError as error:
            raise NoAnswer(f"no answer within {seconds:g} s") from error
        except PyreqwestError as error:
            raise NoAnswer(_told(error)) from error

    def _locate(self, url: str, names: NameTable) -> Location:
        if names is not self._names:
            self._names, self._left_to_dns = names, {}
        location = self._left_to_dns.get(url)
        if location is not None:
            return location
        try:
            location = names.locate(url)
        except NothingThere as error:
            raise NoAnswer(str(error)) from error
        except ValueError as error:
            raise Unsendable(f"{url} is no valid address: {error}") from error
        if location.host is None:
            self._left_to_dns[url] = location
        return location

    def _client_for(self, endpoint: Endpoint, location: Location) -> tuple[Client, str]:
        url = location.url
        if location.host is None or not url.startswith("https:"):
            return self._client((endpoint.ca_certs, None, None)), url
        # TLS to a name of the snapshot: the URL keeps the name, the client knows where it leads.
        parts, host = urlsplit(url), urlsplit(f"//{location.host}").hostname or ""
        named = urlunsplit(parts._replace(netloc=f"{host}:{parts.port or 443}"))
        return self._client((endpoint.ca_certs, host, parts.hostname)), named

    def _client(self, key: _ClientKey) -> Client:
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = _build(*key)
        return client

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.close()


def _build(ca_certs: str | None, host: str | None, address: str | None) -> Client:
    builder = ClientBuilder().follow_redirects(False).no_proxy().user_agent("penstock").referer(False)
    builder = builder.pool_idle_timeout(IDLE_CONNECTION)
    builder = builder.connect_timeout(timedelta(seconds=10)).gzip(False).brotli(False).zstd(False).deflate(False)
    try:
        for certificate in _CERTIFICATE.findall((ca_certs or "").encode()):
            builder = builder.add_root_certificate_pem(certificate)
        if host is not None and address is not None:
            builder = builder.resolve(host, address, 0)
        return builder.build()
    except (PyreqwestError, ValueError) as error:
        raise Unsendable(f"the certificates of the destination cannot be used: {error}") from error


@lru_cache(maxsize=1024)
def _duration(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _folded(items: object) -> dict[str, str]:
    """Headers as a mapping. One that occurs twice keeps its first value: an answer is not worth more."""
    folded: dict[str, str] = {}
    for name, value in items:  # type: ignore[attr-defined]  # pairs of a HeaderMap
        folded.setdefault(str(name).lower(), str(value))
    return folded


def _told(error: PyreqwestError) -> str:
    """The message with its innermost cause, which is what people look for."""
    details = error.args[1] if len(error.args) > 1 else None
    causes = (details or {}).get("causes") or [] if isinstance(details, dict) else []
    message = str(getattr(error, "message", error))
    return f"{message}: {causes[-1]['message']}" if causes else message
