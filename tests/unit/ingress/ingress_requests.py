"""Requests without sockets or Kafka: real connections on a transport that remembers, and a log that only remembers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.contract.records import EventRecord
from penstock.contract.routes import Target
from penstock.ingress.app import Ingress
from penstock.ingress.authorization import SenderAuthorizer
from penstock.ingress.connection import Connection, OverloadedConnection
from penstock.ingress.storage_checks import DiskWatch, KafkaWatch
from penstock.ingress.targets import TargetTable
from penstock.observability.trace import Tracer
from penstock.settings import Settings

TARGETS = (
    Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",)),
    Target("c-uid", "Channel", "shop", "pipe", ("/channels/shop/pipe",), ("pipe-kn-channel.shop.svc.cluster.local",)),
)
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/here", "ce-type": "made.up"}


@dataclass
class RememberingLog:
    """Takes the place of Kafka where only the responses are looked at."""

    records: list[EventRecord] = field(default_factory=list)
    room: bool = True
    failure: Exception | None = None
    holds: bool = False
    """Whether confirmations wait for `confirm`."""
    held: list[Callable[[Exception | None], None]] = field(default_factory=list)
    stored_at: float = -math.inf
    failed_at: float = -math.inf
    reached: bool = True
    """Whether Kafka answers."""

    async def is_available(self, seconds: float) -> bool:
        return self.reached

    def has_capacity(self, events: int = 1) -> bool:
        return self.room

    def store(self, records: Sequence[EventRecord], done: Callable[[Exception | None], None]) -> None:
        if self.failure is None:
            self.records.extend(records)
        if self.holds:
            self.held.append(done)
        else:
            done(self.failure)

    def confirm(self) -> None:
        """Kafka has confirmed the oldest request."""
        self.held.pop(0)(None)


class Wire(asyncio.Transport):
    """The client's end of a connection, as far as a test looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads = True
        self.is_closed = self.is_aborted = self.is_finished = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.is_closed, "written after the end"
        self.written += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_finished = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes
    received: int = 0
    """How many parts of the body had come when it was given."""


def responses(written: bytes, bodiless: bool = False) -> list[Response]:
    """The responses in what was written, `100 Continue` among them."""
    found = []
    while written:
        head, _, written = written.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = 0 if bodiless else int(headers.get("content-length", 0))
        found.append(Response(int(status.split()[1]), headers, written[:length]))
        written = written[length:]
    return found


def head(headers: dict[str, str] | None = None, method: str = "POST", path: str = "/shop/orders") -> bytes:
    """The head of a request; it names a host unless told which."""
    host = [] if any(name.lower() == "host" for name in headers or {}) else ["Host: x"]
    lines = [f"{method} {path} HTTP/1.1", *host, *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode()


class Client:
    """One application, its server's state, and what it has stored."""

    def __init__(
        self, tracer: Tracer | None = None, authorizer: SenderAuthorizer | None = None, **settings: Any
    ) -> None:
        self.log = RememberingLog()
        self.disk = DiskWatch([Path("/")], 0)
        self.kafka = KafkaWatch(self.log)
        self.app = Ingress(
            Settings(**settings),
            self.log,  # type: ignore[arg-type]
            self.disk,
            self.kafka,
            tracer or Tracer(),
            authorizer=authorizer,
        )
        self.app.targets = TargetTable(TARGETS)
        self.now, self.date = 1000.0, b"date: Mon, 16 Nov 2026 00:00:00 GMT\r\n"
        self.connections: set[Connection] = set()
        self.overloaded: set[OverloadedConnection] = set()
        self.held_bytes, self.max_held_bytes = 0, 1 << 40

    def connect(self) -> tuple[Connection, Wire]:
        """A connection of its own."""
        connection, wire = Connection(self.app, self), Wire()
        connection.connection_made(wire)
        return connection, wire

    def look(self, seconds: float) -> None:
        """So much time passes."""
        self.now += seconds
        for connection in list(self.connections):
            connection.look(self.now)

    def send(
        self,
        path: str = "/shop/orders",
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        body: bytes | Sequence[bytes] = b"",
        method: str = "POST",
    ) -> Response:
        """One request; a body given in parts is chunked and comes in as many pieces."""
        given = EVENT if headers is None else headers
        parts = [body] if isinstance(body, bytes) else list(body)
        chunked = not isinstance(body, bytes)
        framing = [("Transfer-Encoding", "chunked")] if chunked else [("Content-Length", str(len(body)))]
        named = [*(given.items() if isinstance(given, dict) else given)]
        if any(name.lower() == "content-length" for name, _ in named):
            framing = []
        if not any(name.lower() == "host" for name, _ in named):
            named = [("Host", "x"), *named]
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in [*named, *framing])]
        connection, wire = self.connect()
        connection.data_received("\r\n".join([*lines, "", ""]).encode())
        received = 0
        for part in parts:
            if wire.written:
                break
            received += 1
            connection.data_received(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        if chunked and not wire.written:
            connection.data_received(b"0\r\n\r\n")
        [response] = responses(wire.written, bodiless=method == "HEAD")
        response.received = received
        return response
