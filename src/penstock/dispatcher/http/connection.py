"""One HTTP/1.1 connection to a subscriber: a request out, a response in, one after the other.

It runs on the task's own event loop: handing requests to a client with threads of its own costs more than the rest of a
delivery. llhttp parses the responses. How much of a body is read is limited, and a connection with an unusual response
is never reused.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import math
import ssl
import zlib
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from penstock.contract.attempts import FailureCause
from penstock.dispatcher.http.outcome import may_carry_reply
from penstock.events import http
from penstock.events.attributes import shown
from penstock.events.event import MalformedEvent

IGNORED_BODY_BYTES = 64 * 1024
"""How much of an unneeded body is read so that the connection can be used again; beyond that it is closed."""
HEAD_BYTES = 64 * 1024
"""Limit of the head of a response, with interim responses before it."""

_GZIP = ("gzip", "x-gzip")
_TOO_LARGE = "it is larger than an event may be"
_CLIENT_CERTIFICATE_ALERTS = frozenset(
    {
        "ACCESS_DENIED",
        "BAD_CERTIFICATE",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_REQUIRED",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_UNKNOWN",
        "HANDSHAKE_FAILURE",
        "NO_CERTIFICATE",
        "UNKNOWN_CA",
        "UNSUPPORTED_CERTIFICATE",
    }
)
"""Alerts by which servers refuse a client for its certificate, as OpenSSL calls them after `…_ALERT_`."""


class NoResponse(Exception):
    """There was no response; the request may or may not have arrived."""

    def __init__(self, reason: str, cause: FailureCause = FailureCause.DELIVERY_FAILED) -> None:
        super().__init__(reason)
        self.cause = cause


class NoConnection(NoResponse):
    """No connection could be made: the request has not arrived."""


class ClosedWithoutResponse(NoResponse):
    """The connection was closed before a byte of the response, as servers do with kept connections."""


class ResetWithoutResponse(ClosedWithoutResponse):
    """The connection was reset: the subscriber closed it with bytes of the request unread."""


def cause_of(problem: BaseException | None) -> FailureCause:
    """The cause of what ended a connection, or kept it from being made; None: it was closed normally."""
    match problem:
        case ssl.SSLError():
            _, _, alert = (getattr(problem, "reason", None) or "").partition("_ALERT_")
            client_refused = alert in _CLIENT_CERTIFICATE_ALERTS
            return FailureCause.CLIENT_CERTIFICATE_REFUSED if client_refused else FailureCause.CERTIFICATE_REFUSED
        case ConnectionRefusedError():
            return FailureCause.CONNECTION_REFUSED
        case TimeoutError():
            return FailureCause.CONNECTION_TIMEOUT
        case None | ConnectionError():
            return FailureCause.CONNECTION_CLOSED
    return FailureCause.DELIVERY_FAILED


class SubscriberResponse:
    """The response of a subscriber."""

    __slots__ = ("_limit", "body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes, limit: int) -> None:
        """`limit`: how many bytes of the body were to be read; a longer body is incomplete."""
        self.status = status
        self.headers = headers
        """Those of a failure, and of a response that may carry a reply; otherwise empty."""
        self.body = body
        """As received, encoded or not."""
        self._limit = limit

    @property
    def is_cut(self) -> bool:
        """Whether the body was longer than what was read."""
        return len(self.body) > self._limit

    def event_body(self) -> bytes:
        """The body of a response that carries an event, decoded. Raises MalformedEvent."""
        if self.is_cut:
            raise MalformedEvent(_TOO_LARGE)
        encoding = self.headers.get(http.CONTENT_ENCODING, "").strip().lower()
        if not self.body or encoding in ("", "identity"):
            return self.body
        if encoding not in _GZIP:
            raise MalformedEvent(
                f"its Content-Encoding is {shown(encoding)}, but gzip is the only one that is accepted"
            )
        try:
            decoded = gzip.GzipFile(fileobj=io.BytesIO(self.body)).read(self._limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise MalformedEvent(f"its body cannot be decompressed: {error}") from error
        if len(decoded) > self._limit:
            raise MalformedEvent(_TOO_LARGE)
        return decoded

    def error_body(self) -> bytes:
        """The body of a failure, decompressed as far as possible."""
        if self.headers.get(http.CONTENT_ENCODING, "").strip().lower() in _GZIP:
            try:
                return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(self.body, IGNORED_BODY_BYTES)
            except zlib.error:
                pass
        return self.body


class SubscriberConnection(asyncio.Protocol):
    """A connection, from being made to being lost."""

    def __init__(self, idle: Callable[[SubscriberConnection], None], event_limit: int) -> None:
        self.idle_since = 0.0
        self.retires_at = math.inf
        """When it reaches its maximum age, by the loop's time."""
        self.closed = False
        self._idle, self._event_limit = idle, event_limit
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[SubscriberResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reply_counts = self._heard = False
        self._begin_response()

    def _begin_response(self) -> None:
        self._status = 0
        """0 until the head of the response is complete."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._folded_headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._size = self._head_size = 0
        self._limit = IGNORED_BODY_BYTES

    def send(
        self, head: bytes, body: bytes, deadline: float, seconds: float, reply_counts: bool
    ) -> asyncio.Future[SubscriberResponse]:
        """Sends a request; only while no other is in flight. The future may raise NoResponse.

        The deadline is in the loop's time; `seconds` is the timeout that it was computed from.
        """
        self._reply_counts, self._heard = reply_counts, False
        waiter = self._waiter = self._loop.create_future()
        if self.closed or self._transport is None:
            reason = "the connection was closed as soon as it was made"
            self._fail(reason, FailureCause.CONNECTION_CLOSED, ClosedWithoutResponse)
        else:
            self._timer = self._loop.call_at(deadline, self._expire, seconds)
            self._transport.writelines((head, body))
        return waiter

    def abort(self) -> None:
        """Closes at once; a request in flight gets no response."""
        self.closed = True
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    # --- callbacks of the transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._complete(reusable=False)  # no other protocol was requested: a response like any other
        except HttpParserError as problem:
            self._fail(f"invalid HTTP response: {problem}", FailureCause.NOT_HTTP)
        if not self._status and self._waiter is not None:
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                self._fail(f"the head of the response is longer than {HEAD_BYTES} bytes", FailureCause.NOT_HTTP)

    def eof_received(self) -> None:
        # By itself the transport would first send the rest of the request, which the peer may never read.
        self.connection_lost(None)
        self.abort()

    def connection_lost(self, problem: Exception | None) -> None:
        self.closed = True
        if self._waiter is None:
            return
        if problem is None and self._status and self._ends_with_connection():
            self._complete(reusable=False)
            return
        suffix = f": {problem}" if problem is not None else ""
        kind: type[NoResponse] = NoResponse
        if not self._heard:
            kind = ResetWithoutResponse if isinstance(problem, ConnectionError) else ClosedWithoutResponse
        self._fail(f"the connection was closed before the response was complete{suffix}", cause_of(problem), kind)

    # --- callbacks of the parser ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._waiter is None:
            self.abort()  # without a request: this must not be taken for the response to the next one

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            return
        self._status = status
        if self._reply_counts and may_carry_reply(status):
            self._folded_headers = _folded(self._headers)
            if http.is_event(self._folded_headers):
                self._limit = self._event_limit

    def on_body(self, chunk: bytes) -> None:
        if self._waiter is None:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit:
            self._complete(reusable=False)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete(reusable=self._parser.should_keep_alive())
        else:
            self._headers = []  # 100 to 199: the final response follows

    # --- completion ----------------------------------------------------------------------------------------------

    def _complete(self, *, reusable: bool) -> None:
        waiter = self._forget()
        if waiter is None:
            return
        if not 200 <= self._status <= 299:
            self._folded_headers = _folded(self._headers)
        response = SubscriberResponse(self._status, self._folded_headers, b"".join(self._chunks), self._limit)
        self._begin_response()
        # A response before the whole request was sent leaves the connection in the middle of the request.
        sent = self._transport is not None and not self._transport.get_write_buffer_size()
        if reusable and sent and not self.closed:
            self._idle(self)
        else:
            self.abort()
        if not waiter.done():
            waiter.set_result(response)

    def _expire(self, seconds: float) -> None:
        self._fail(f"no response within {seconds:g} s", FailureCause.TIMEOUT)

    def _fail(self, reason: str, cause: FailureCause, kind: type[NoResponse] = NoResponse) -> None:
        waiter = self._forget()
        self.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(kind(reason, cause))

    def _forget(self) -> asyncio.Future[SubscriberResponse] | None:
        waiter, self._waiter = self._waiter, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return waiter

    def _ends_with_connection(self) -> bool:
        return not any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self._headers)


def _folded(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as a mapping. One that occurs twice keeps its first value."""
    folded: dict[str, str] = {}
    for name, value in headers:
        folded.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))
    return folded
