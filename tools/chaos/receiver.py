"""All subscribers in one process: cheap HTTP on the event loop, each with its own manners."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from tools.chaos import events
from tools.chaos.books import Books

SLOW_SECONDS = 0.3
HANGING_SECONDS = 5.0
"""Longer than the delivery timeout of the routes to flaky subscribers."""

_PHRASES = {200: b"OK", 202: b"Accepted", 429: b"Too Many Requests", 500: b"Internal Server Error", 503: b"Unavailable"}

Delivered = Callable[[str, int, float], None]
"""Told of the first time that a subscriber took an event: its name, the event's number, the moment."""


@dataclass(frozen=True)
class Manners:
    """How a subscriber answers one request."""

    status: int | None = 202
    """None: the connection is closed without an answer."""
    delay: float = 0.0
    reply: bool = False

    @property
    def takes(self) -> bool:
        """Whether the event counts as taken."""
        return self.status is not None and self.status < 300


FINE = Manners()
REPLYING = Manners(200, reply=True)
SLOW = Manners(delay=SLOW_SECONDS)
FLAKY = ((0.80, FINE), (0.87, Manners(503)), (0.92, Manners(500)), (0.95, Manners(429)), (0.99, Manners(None)))
"""Shares, added up; what is left hangs until the dispatcher gives up."""
HANGING = Manners(None, HANGING_SECONDS)


def manners_of(name: str, chance: random.Random) -> Manners:
    """How the subscriber of this name answers this time."""
    if name in ("asks", "channel-asks"):
        return REPLYING
    if name.startswith("slow"):
        return SLOW
    if "flaky" in name:
        drawn = chance.random()
        return next((manners for share, manners in FLAKY if drawn < share), HANGING)
    return FINE


class Receiver:
    """Listens for all subscribers; `comes_and_goes` has a port of its own, where it listens only while it is there."""

    def __init__(self, books: Books, chance: random.Random, delivered: Delivered) -> None:
        self.books, self.chance, self.delivered = books, chance, delivered
        self._main = _bound(0)
        self._held = _bound(0)
        """Keeps the port of the one that comes and goes: bound, never listening."""
        self.port, self.other_port = self._main.getsockname()[1], self._held.getsockname()[1]
        self._servers: list[asyncio.Server] = []
        self._other: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> None:
        """Listens."""
        self._servers.append(await self._listen(self._main))
        await self.come()

    async def come(self) -> None:
        """The subscriber that comes and goes is there."""
        if self._other is None:
            self._other = await self._listen(_bound(self.other_port))

    def go(self) -> None:
        """The subscriber that comes and goes is away: connections are refused, open ones end."""
        if self._other is not None:
            self._other.close()
            self._other = None
            for connection in [one for one in self._connections if one.port == self.other_port]:
                connection.end()

    def close(self) -> None:
        """Listens no more."""
        self.go()
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.end()
        self._held.close()

    async def _listen(self, bound: socket.socket) -> asyncio.Server:
        loop, port = asyncio.get_running_loop(), int(bound.getsockname()[1])
        return await loop.create_server(lambda: _Connection(self, self._connections, port), sock=bound, backlog=1024)


class _Connection(asyncio.Protocol):
    """One connection of the dispatcher: a request, an answer, and so on."""

    def __init__(self, receiver: Receiver, connections: set[_Connection], port: int) -> None:
        self.port = port
        self._receiver, self._connections = receiver, connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url, self._headers, self._body = b"", dict[str, str](), b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.end()

    def end(self) -> None:
        """Closes without an answer."""
        if self._transport is not None:
            self._transport.abort()

    # --- called by the parser ------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        self._url, self._headers, self._body = url, {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        receiver, ident = self._receiver, self._headers.get("ce-id", "")
        subscriber = self._url.decode().lstrip("/")
        name = self._headers.get("ce-penstockreplay", subscriber)  # what a Replay delivers has a book of its own
        book = receiver.books.at(name)
        complaint = fault_of(ident, self._headers, self._body)
        if complaint is not None:
            book.odd[complaint] += 1
            self._answer(202)
            return
        book.attempt(ident, next(receiver.books.serials))
        manners = manners_of(subscriber, receiver.chance)
        if manners.delay:
            asyncio.get_running_loop().call_later(manners.delay, self._finish, name, ident, manners)
        else:
            self._finish(name, ident, manners)

    # -------------------------------------------------------------------------------------------------------------

    def _finish(self, name: str, ident: str, manners: Manners) -> None:
        if self._transport is None or self._transport.is_closing():
            return  # nobody hears the answer: the event was not taken
        if manners.status is None:
            self.end()
            return
        if manners.takes:
            books = self._receiver.books
            books.deliveries += 1
            if books.at(name).succeed(ident, next(books.serials)):
                number, _ = events.parse(ident) or (0, False)
                self._receiver.delivered(name, number, time.monotonic())
        self._answer(manners.status, reply_to=ident if manners.reply else None)

    def _answer(self, status: int, reply_to: str | None = None) -> None:
        if self._transport is None:
            return
        head, body = [b"HTTP/1.1 %d %b" % (status, _PHRASES[status])], b""
        if reply_to is not None:
            lines, body = reply(reply_to)
            head += [f"{header}: {value}".encode() for header, value in lines.items()]
        head.append(b"content-length: %d" % len(body))
        self._transport.write(b"\r\n".join(head) + b"\r\n\r\n" + body)


def fault_of(ident: str, headers: dict[str, str], body: bytes) -> str | None:
    """What is wrong with a delivery, beside where it went; None if it is an event of this run as it was sent."""
    parsed = events.parse(ident)
    if parsed is None:
        return f"the id {ident!r}"
    number, is_reply = parsed
    seen = (headers.get("ce-type"), headers.get("ce-partitionkey"), body)
    wanted = (events.type_of_id(number, reply=is_reply), events.key_of(number), data_of(number))
    return None if seen == wanted else f"{ident} as {seen}"


def data_of(number: int) -> bytes:
    """The data of an event and of the reply to it."""
    return b'{"number": %d}' % number


def headers_of(number: int, *, is_reply: bool = False) -> dict[str, str]:
    """The HTTP headers of an event in binary mode, or of the reply to it."""
    key = events.key_of(number)
    return {
        "ce-specversion": "1.0",
        "ce-id": events.id_of(number, reply=is_reply),
        "ce-source": "/chaos",
        "ce-type": events.type_of_id(number, reply=is_reply) or "",
        "content-type": "application/json",
        **({} if key is None else {"ce-partitionkey": key}),
    }


def reply(ident: str) -> tuple[dict[str, str], bytes]:
    """Headers and data of the reply to an event."""
    number, _ = events.parse(ident) or (0, False)
    return headers_of(number, is_reply=True), data_of(number)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound
