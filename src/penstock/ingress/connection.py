"""One HTTP/1.1 connection: bytes become requests, and responses go back in the order of the requests.

httptools parses. There is no task, timer or future per request: they are most of the cost of a request in a general
server. Requests of a connection are served one after the other; while one waits for its response no further one is
read, so a client that pipelines cannot pile them up. Time limits are checked once a second for all connections
together.

```
idle --first byte--> head --complete--> body --complete--> served --answered--> idle
                       |                  |  refused before the body came: the body is read and dropped
                       +---- too slow: 408, end ----+
```
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

import httptools
import structlog

from penstock.ingress import responses
from penstock.ingress.request import Request
from penstock.ingress.responses import Response

HEAD_BYTES = 64 * 1024
"""All headers of a request together."""
HEAD_SECONDS = 10.0
"""Time for the headers of a request to arrive, from their first byte."""
BODY_SECONDS = 30.0
"""Time for a body to arrive once its headers have."""
KEEP_ALIVE_SECONDS = 120.0
"""Time that a connection may be idle."""
REFUSAL_SECONDS = 2.0
"""Time for a client beyond the limit to read its 503."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_UPGRADE_HEADERS = (b"upgrade", b"connection", b"http2-settings")

log = structlog.get_logger()


class Application(Protocol):
    """What decides about requests and responds to them."""

    draining: bool
    """Whether every response ends its connection."""
    max_body_bytes: int
    too_large: Response

    def early_response(self, request: Request) -> Response | None:
        """The response to what needs no body; None where the body is wanted."""

    def take(self, request: Request, body: bytes) -> None:
        """Responds to a request that is complete, now or later."""

    def refuse(self, request: Request, response: Response) -> None:
        """Responds to a request without its body."""

    def refuse_connection(self) -> Response:
        """The response to a client beyond the limit of connections."""


class ServerState(Protocol):
    """What the connections of a server share."""

    now: float
    """The time as of the last second."""
    date: bytes
    """The header line that goes with it."""
    connections: set[Connection]
    overloaded: set[OverloadedConnection]
    held_bytes: int
    """What all connections hold of requests that are still arriving or wait for their turn."""
    max_held_bytes: int


class Connection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, app: Application, state: ServerState) -> None:
        self._app, self._state = app, state
        self._transport = cast(asyncio.Transport, None)
        self._parser = self._new_parser()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = self._arrived = 0
        self._in_head = self._is_upgrade = self._has_ended = False
        self._receiving: Request | None = None
        """The request whose body is arriving."""
        self._serving: Request | None = None
        """The request that is to be answered next."""
        self._waiting: deque[Request] = deque()
        """Requests that arrived before that response was sent."""
        self._last_response: Response | None = None
        """The last response of the connection: what arrived after the requests was not an HTTP request."""
        self._since = state.now
        """When the present state of the connection began."""
        self._is_secure = False
        self._held = 0
        """Its part of `held_bytes`. A request that arrived in one piece is never counted."""

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun."""
        return self._serving is None and not self._in_head

    def close(self) -> None:
        """Closes it when all responses are sent."""
        self._transport.close()

    def abort(self) -> None:
        """Closes it at once."""
        self._transport.abort()

    def look(self, now: float) -> None:
        """Closes what takes too long."""
        waited, request = now - self._since, self._serving
        if self._transport.is_closing():
            if waited > KEEP_ALIVE_SECONDS:  # the client does not read its last response
                self.abort()
        elif request is not None:
            if not request.complete and waited > BODY_SECONDS:
                if request.answered:
                    self.close()
                else:
                    self._app.refuse(request, responses.BODY_TIMEOUT)
        elif self._in_head:
            if waited > HEAD_SECONDS:
                self._end_with(responses.HEAD_TIMEOUT)
        elif waited > KEEP_ALIVE_SECONDS:
            self.close()

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)
        self._is_secure = transport.get_extra_info("ssl_object") is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._waiting.clear()
        self._in_head = False
        request = self._serving
        if request is not None:
            if not request.complete and not request.answered:
                self._app.refuse(request, responses.BODY_CUT_OFF)
            request.body = b""
        self._count_held()

    def eof_received(self) -> bool:
        """A client that has sent everything still gets its responses, except over TLS, where it is gone."""
        self._has_ended = True
        return self._serving is not None and self._serving.complete and not self._is_secure

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        if not self._waiting and not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        was_in_head, self._arrived = self._in_head, len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as end:
            if self._is_upgrade:
                self._ignore_upgrade(data[end.args[0] :])
        except httptools.HttpParserCallbackError as error:
            self._fail(error.__context__ or error)
        except httptools.HttpParserError:
            self._end_with(responses.NO_REQUEST)
        # The parser alone would collect headers that never end.
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._end_with(responses.HEAD_TOO_LARGE)
        if self._in_head or self._receiving is not None or self._held or self._waiting:
            self._count_held()
            if self._state.held_bytes > self._state.max_held_bytes:
                self._refuse_for_memory()

    # What the parser calls

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._in_head, self._head_bytes = True, 0
        if self._serving is None:
            self._since = self._state.now

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser = self._parser
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":
            self._is_upgrade = True
            return
        version = parser.get_http_version()
        request = self._receiving = Request(
            method, self._url, self._headers, self._reply, self._is_secure, version=version
        )
        if not parser.should_keep_alive() or ("connection" in request.headers and version == "1.0"):
            request.keep_alive = False
        # Few come near the limit, so they are measured only where so much has arrived.
        if self._arrived + self._head_bytes > HEAD_BYTES and _size(self._headers) > HEAD_BYTES:
            request.refusal = responses.HEAD_TOO_LARGE
        if self._serving is None:
            self._begin(request)
        else:
            self._waiting.append(request)
            self._transport.pause_reading()

    def on_body(self, body: bytes) -> None:
        request = self._receiving
        if request is None or request.answered:
            return
        request.add(body)
        if len(request.body) > self._app.max_body_bytes and request is self._serving:
            self._app.refuse(request, self._app.too_large)

    def on_message_complete(self) -> None:
        request, self._receiving = self._receiving, None
        if request is None:
            return
        request.complete = True
        if request is self._serving:
            if request.answered:
                self._serve_next()
            else:
                self._take(request)

    # From request to response

    def _begin(self, request: Request) -> None:
        self._serving, self._since = request, self._state.now
        response = self._app.early_response(request)
        if response is not None:
            self._app.refuse(request, response)
        elif "expect" in request.headers and request.headers["expect"].lower() == "100-continue":
            self._transport.write(_CONTINUE)

    def _take(self, request: Request) -> None:
        if len(request.body) > self._app.max_body_bytes:
            self._app.refuse(request, self._app.too_large)
            return
        body, request.body = bytes(request.body), b""
        if self._held:
            self._count_held()
        self._app.take(request, body)

    def _reply(self, request: Request, response: Response) -> None:
        if request.answered:
            return
        request.answered, request.body = True, b""
        transport = self._transport
        if transport.is_closing():
            return
        closing = (
            response.closes or not request.keep_alive or self._app.draining or (self._has_ended and not self._waiting)
        )
        transport.write(response.rendered(self._state.date, closing, request.method == b"HEAD"))
        if closing:
            transport.close()
        elif request.complete:
            self._serve_next()

    def _serve_next(self) -> None:
        self._serving, self._since = None, self._state.now
        if self._waiting:
            # Not at once: a thousand requests in one segment would be as many nested calls.
            asyncio.get_running_loop().call_soon(self._serve_waiting)
        elif self._last_response is not None:
            self._end_with(self._last_response)

    def _serve_waiting(self) -> None:
        if not self._waiting or self._transport.is_closing():
            return
        request = self._waiting.popleft()
        if not self._waiting:
            self._transport.resume_reading()
        try:
            self._begin(request)
            if request.complete and not request.answered:
                self._take(request)
        except Exception as error:  # a defect ends this connection with 500, and no other
            self._fail(error)

    def _end_with(self, response: Response) -> None:
        """Sends a last response and closes; a request that is being served gets its response first."""
        request = self._serving
        if self._transport.is_closing():
            return
        if request is None or request.answered:
            self._transport.write(response.rendered(self._state.date, closing=True))
            self._transport.close()
        elif request.complete:
            self._last_response = response
            self._transport.pause_reading()
        else:
            self._app.refuse(request, response)

    def _count_held(self) -> None:
        held = sum(len(request.body) for request in self._waiting)
        if self._serving is not None:
            held += len(self._serving.body)
        if self._in_head:
            held += self._head_bytes
        self._state.held_bytes += held - self._held
        self._held = held

    def _refuse_for_memory(self) -> None:
        """There is no memory for what arrives: the body is dropped; behind other requests, the connection is closed."""
        request = self._serving
        if request is not None and not request.complete:
            self._app.refuse(request, responses.NO_MEMORY)
        else:
            self._waiting.clear()
            self._receiving = None
            self._end_with(responses.NO_MEMORY)
        self._count_held()

    def _fail(self, error: BaseException) -> None:
        log.error("a request could not be handled", exc_info=error)
        if self._serving is not None and not self._serving.answered:
            self._reply(self._serving, responses.FAILED)
        else:
            self._end_with(responses.FAILED)

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # What follows a request with `Connection: close` is ignored; the parser would refuse the request itself.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Ignores an `Upgrade` header, as HTTP allows; the parser would treat it as accepted and drop the body."""
        version = self._parser.get_http_version().encode()
        lines = [self._parser.get_method() + b" " + self._url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self._headers if name.lower() not in _UPGRADE_HEADERS]
        asked = b",".join(value.lower() for name, value in self._headers if name.lower() == b"connection")
        if b"close" in (option.strip() for option in asked.split(b",")):
            lines.append(b"connection: close")
        self._is_upgrade, self._parser = False, self._new_parser()
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)


class OverloadedConnection(asyncio.Protocol):
    """A connection beyond the limit: its first request gets a 503, then it is closed.

    The response waits for the request, because clients treat an earlier one as an error. What the client still sends is
    read and dropped, because closing a connection with unread bytes would discard the response.
    """

    def __init__(self, app: Application, state: ServerState) -> None:
        self._app, self._state = app, state
        self._transport = cast(asyncio.Transport, None)
        self._since = state.now
        self._is_answered = False

    def abort(self) -> None:
        """Closes it at once."""
        self._transport.abort()

    def look(self, now: float) -> None:
        """Closes what takes too long."""
        if now - self._since > REFUSAL_SECONDS:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._state.overloaded.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.overloaded.discard(self)

    def data_received(self, data: bytes) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._transport.write(self._app.refuse_connection().rendered(self._state.date, closing=True))
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:  # TLS cannot close one direction only
                self._transport.close()


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
