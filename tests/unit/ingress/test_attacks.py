"""Hostile clients of the ingress, on a real socket: what they may cost, and that others are served meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from penstock.ingress import connection, server
from penstock.ingress.server import IngressServer
from penstock.runtime.sockets import bound_socket
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.hostile_clients import SMUGGLING, allow_files, answer_to, bounded, codes
from tests.unit.ingress.ingress_requests import EVENT, Client, head

HALF_OPEN = 1000
SMALL = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


class Ingress:
    """The real server with a log that only remembers."""

    def __init__(self, client: Client, port: int, server: IngressServer) -> None:
        self.client, self.port, self.server = client, port, server

    async def send(self, headers: dict[str, str], body: bytes = b"") -> list[int]:
        sized = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
        return codes(await answer_to(self.port, head(sized) + body))

    async def still_serves(self) -> bool:
        return await self.send(dict(EVENT)) == [202]


@pytest_asyncio.fixture
async def ingress(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ingress]:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.05)
    client, scope = Client(), TaskScope()
    serving = IngressServer(client.app, Settings(max_connections=HALF_OPEN + 10, drain_seconds=1), scope)
    with bound_socket("127.0.0.1", 0) as listening, bound_socket("127.0.0.1", 0) as secure:
        await serving.start(listening, secure, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        try:
            yield Ingress(client, listening.getsockname()[1], serving)
        finally:
            await serving.end()
            await scope.close()


async def test_a_slow_head_is_given_up(ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    assert codes(await answer_to(ingress.port, b"POST /shop/orders HTTP/1.1\r\nce-")) == [408]


async def test_a_slow_body_is_given_up(ingress: Ingress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.2)
    assert codes(await answer_to(ingress.port, head({**EVENT, "Content-Length": "5"}), b"a")) == [408]
    assert ingress.client.log.records == []


async def test_a_thousand_half_open_connections_cost_little_and_others_are_served(ingress: Ingress) -> None:
    allow_files(2 * HALF_OPEN + 500)
    with bounded(mib=64, cpu_seconds=20):
        opened = [await asyncio.open_connection("127.0.0.1", ingress.port) for _ in range(HALF_OPEN)]
        for _, writer in opened:
            writer.write(b"POST /shop/orders HTTP/1.1\r\nHost")
        assert await ingress.still_serves()
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize("what", SMUGGLING)
async def test_what_two_servers_could_read_differently_is_refused(ingress: Ingress, what: str) -> None:
    said = await answer_to(ingress.port, head(dict(EVENT))[:-2] + SMUGGLING[what], ends=True)
    assert codes(said) == [400]
    assert ingress.client.log.records == []


async def test_headers_by_the_thousand_are_refused(ingress: Ingress) -> None:
    many = b"".join(b"x%d: y\r\n" % number for number in range(20_000))
    with bounded(mib=32, cpu_seconds=10):
        assert codes(await answer_to(ingress.port, head(dict(EVENT))[:-2] + many + b"\r\n")) == [431]


@pytest.mark.parametrize("event", [EVENT, STRUCTURED], ids=["binary", "structured"])
async def test_a_compressed_bomb_is_not_unpacked(ingress: Ingress, event: dict[str, str]) -> None:
    bomb = gzip.compress(b" " * 16 * 1024 * 1024)
    with bounded(mib=32, cpu_seconds=10):
        assert await ingress.send({**event, "Content-Encoding": "gzip"}, bomb) == [415]
    assert ingress.client.log.records == []


async def test_a_batch_of_thousands_is_one_request_in_cost(ingress: Ingress) -> None:
    batch = json.dumps([SMALL] * 13_000, separators=(",", ":")).encode()
    with bounded(mib=128, cpu_seconds=20):
        assert await ingress.send(BATCH, batch) == [202]
    assert len(ingress.client.log.records) == 13_000
    assert await ingress.send(BATCH, b"[" + b"{}," * 300_000 + b"{}]") == [400]


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"data":['])
async def test_deep_json_is_refused(ingress: Ingress, opening: bytes) -> None:
    with bounded(mib=64, cpu_seconds=10):
        assert await ingress.send(STRUCTURED, opening * 100_000) == [400]


async def test_more_connections_than_allowed_are_told_so(ingress: Ingress) -> None:
    ingress.server._max_connections = 3
    opened = [await asyncio.open_connection("127.0.0.1", ingress.port) for _ in range(3)]
    assert await ingress.send(dict(EVENT)) == [503]
    for _, writer in opened:
        writer.close()
