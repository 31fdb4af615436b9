"""Requests to the application without a server: a log that only remembers, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.contract.routes import Target
from penstock.ingress.app import Ingress
from penstock.ingress.record import Record
from penstock.ingress.room import DiskWatch
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
    """Takes the place of Kafka where only the answers are looked at."""

    records: list[Record] = field(default_factory=list)
    room: bool = True
    failure: Exception | None = None

    def has_room(self, events: int = 1) -> bool:
        return self.room

    async def store(self, records: Sequence[Record]) -> None:
        if self.failure is not None:
            raise self.failure
        self.records.extend(records)


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes
    received: int
    """How many messages of the request the application asked for."""


class Client:
    """One application and what it has stored."""

    def __init__(self, tracer: Tracer | None = None, **settings: Any) -> None:
        self.log = RememberingLog()
        self.disk = DiskWatch(Path("/"), 0)
        self.app = Ingress(Settings(**settings), self.log, self.disk, tracer or Tracer())  # type: ignore[arg-type]
        self.app.targets = TargetTable(TARGETS)

    def send(
        self,
        path: str = "/shop/orders",
        headers: dict[str, str] | list[tuple[bytes, bytes]] | None = None,
        body: bytes | Sequence[bytes | None] = b"",
        method: str = "POST",
    ) -> Response:
        """One request; a body given in parts comes in as many messages, and None means that the client went away."""
        given = EVENT if headers is None else headers
        raw = given if isinstance(given, list) else [(name.encode(), value.encode()) for name, value in given.items()]
        parts = [body] if isinstance(body, bytes) else list(body)
        messages: list[dict[str, Any]] = [
            {"type": "http.disconnect"}
            if part is None
            else {"type": "http.request", "body": part, "more_body": place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]
        total, sent = len(messages), []

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "headers": raw}
        asyncio.run(self.app(scope, receive, send))
        start, end = sent
        names = {name.decode(): value.decode() for name, value in start["headers"]}
        assert names["content-length"] == str(len(end["body"]))
        return Response(start["status"], names, end["body"], total - len(messages))
