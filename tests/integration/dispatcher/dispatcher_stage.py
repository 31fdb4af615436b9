"""A stage for the dispatcher: subscribers that behave as told, and both ends of Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from penstock.contract import routes as records
from penstock.contract import topics
from penstock.contract.routes import Endpoint, Record, Route, ServiceName, Target, Version
from penstock.dispatcher.task import run_task
from penstock.settings import Settings
from tests.running import headers_of, kafka_access, read_to_end

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"

Reaction = tuple[int, dict[str, str], bytes]
OK: Reaction = (202, {}, b"")
Headers = list[tuple[str, str | bytes | None]]
"""As the client takes them."""


@dataclass
class Request:
    """What a subscriber got."""

    at: float
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers.get("ce-id", "")


@dataclass
class Subscriber:
    """An HTTP server that answers as `react` says, or does what `misbehave` does with the connection."""

    react: Callable[[Request], Reaction] = lambda _: OK
    misbehave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None = None
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}/in"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url)

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.requests]

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")[1:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(time.time(), headers, body)
                self.requests.append(request)
                if self.misbehave is not None:
                    await self.misbehave(reader, writer)
                    break
                status, answered, content = self.react(request)
                answer = "".join(f"{name}: {value}\r\n" for name, value in answered.items())
                writer.write(
                    f"HTTP/1.1 {status} X\r\n{answer}content-length: {len(content)}\r\n\r\n".encode() + content
                )
                await writer.drain()
        writer.close()


Subscribe = Callable[..., Awaitable[Subscriber]]
"""Starts a subscriber that ends with its test."""


class Stage:
    """Publishes routes, writes matched records, and reads what the dispatcher wrote."""

    _versions = itertools.count(1)
    _names = itertools.count(1)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._producer = Producer({**kafka_access(settings), "queue.buffering.max.messages": 1_000_000})
        self._published: set[str] = set()
        self._ids = itertools.count(1)

    def close(self) -> None:
        """Ends the client: one that outlives its Kafka complains of it without end."""
        self._producer.close()

    def trigger(self, subscriber: Endpoint, **fields: Any) -> Route:
        name = f"t{next(self._names)}-{time.time_ns()}"
        return Route(name, "Trigger", "team", name, "broker-uid", subscriber=subscriber, **fields)

    def subscription(self, subscriber: Endpoint | None, **fields: Any) -> Route:
        name = f"s{next(self._names)}-{time.time_ns()}"
        return Route(name, "Subscription", "team", name, "channel-uid", subscriber=subscriber, **fields)

    def publish(self, *routes: Route, names: tuple[ServiceName, ...] = (), targets: tuple[Target, ...] = ()) -> int:
        """These routes and no others."""
        version = Version(next(self._versions), targets=len(targets), routes=len(routes), names=len(names))
        published: list[Record] = [*targets, *routes, *names, version]
        keys = {records.key_of(record) for record in published[:-1]}
        for gone in self._published - keys:
            self._producer.produce(topics.ROUTES, key=gone, value=None)
        for record in published:
            self._producer.produce(topics.ROUTES, key=records.key_of(record), value=records.encode(record))
        self._published = keys
        self._producer.flush(60)
        return version.version

    def spoil(self, route: Route) -> None:
        """Makes the record of a route one that cannot be read."""
        self._producer.produce(topics.ROUTES, key=records.key_of(route), value=b"\xff{")
        self._producer.flush(60)

    def match(
        self,
        *routes: Route,
        count: int = 1,
        partition: int = 0,
        key: str | None = None,
        data: bytes = b"{}",
        ttl: str = "255",
    ) -> list[str]:
        """Events that were accepted, and that the router has matched; returns their ids."""
        ids = [f"e{next(self._ids)}" for _ in range(count)]
        accepted: list[tuple[Headers, list[int]]] = []
        for ident in ids:
            headers: Headers = [
                ("ce_specversion", b"1.0"),
                ("ce_id", ident.encode()),
                ("ce_source", b"/source"),
                ("ce_type", b"test"),
                ("ce_knativebrokerttl", ttl.encode()),
                ("content-type", b"application/json"),
                ("penstock_target", b"broker-uid"),
                ("penstock_http_x-request-id", b"42"),
                ("penstock_traceparent", TRACE.encode()),
                ("penstock_tracestate", b"a=b"),
            ]
            if key is not None:
                headers.append(("ce_partitionkey", key.encode()))
            origin: list[int] = []
            accepted.append((headers, origin))
            self._producer.produce(
                topics.EVENTS, partition=partition, value=data, headers=headers, on_delivery=partial(_note, origin)
            )
            self._producer.poll(0)
        self._producer.flush(60)
        for headers, (origin_of_event,) in accepted:
            routed: Headers = [
                ("penstock_origin", str(origin_of_event).encode()),
                ("penstock_routes", ",".join(route.uid for route in routes).encode()),
                ("penstock_generation", b"1"),
            ]
            self._producer.produce(topics.MATCHED, partition=partition, value=data, headers=[*headers, *routed])
            self._producer.poll(0)
        self._producer.flush(60)
        return ids

    def write_raw(self, value: bytes, headers: Headers, partition: int = 0) -> None:
        """A record that no router writes."""
        self._producer.produce(topics.MATCHED, partition=partition, value=value, headers=headers)
        self._producer.flush(60)

    def read(self, topic: str) -> list[tuple[str, bytes | None, dict[str, bytes]]]:
        """Key, value and headers of everything committed in a topic."""
        return [
            (bytes(message.key() or b"").decode("utf-8", "replace"), message.value(), headers_of(message))
            for message in read_to_end(self.settings, topic)
        ]

    def table(self, topic: str) -> dict[str, bytes]:
        """The newest values of a compacted topic."""
        values: dict[str, bytes] = {}
        for key, value, _ in self.read(topic):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        return values

    def tail(self, partition: int) -> int:
        """How far a partition was read."""
        position = self.table(topics.CURSORS).get(f"tail/{partition}")
        return 0 if position is None else int(msgspec.json.decode(position)["next"])

    def attempts(self, route: Route) -> list[dict[str, Any]]:
        """The attempts of a route."""
        values = [value for _, value, _ in self.read(topics.ATTEMPTS) if value]
        return [fact for fact in map(msgspec.json.decode, values) if fact["route"] == route.uid]

    @contextlib.asynccontextmanager
    async def task(self, **changes: Any) -> AsyncIterator[asyncio.Task[None]]:
        """A dispatcher task in this process, for all partitions."""
        settings = self.settings.model_copy(update={"drain_seconds": 20.0, **changes})
        stop = asyncio.Event()
        running = asyncio.create_task(run_task(settings, list(range(settings.partitions)), stop))
        try:
            yield running
        finally:
            stop.set()
            if not running.done():
                await asyncio.wait_for(running, 90)

    def process(self, **changes: Any) -> subprocess.Popen[bytes]:
        """A dispatcher task in a process of its own, for SIGKILL."""
        settings = self.settings.model_copy(update=changes)
        program = Path(__file__).with_name("dispatcher_process.py")
        return subprocess.Popen([sys.executable, str(program), settings.model_dump_json()])


def _note(offsets: list[int], error: KafkaError | None, message: Message) -> None:
    assert error is None, error
    offsets.append(int(message.offset() or 0))
