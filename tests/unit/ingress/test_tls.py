"""The ingress over TLS, with real sockets and without Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
import uvloop

from penstock.contract.routes import Target
from penstock.ingress.server import IngressServer
from penstock.ingress.targets import TargetTable
from penstock.runtime.sockets import bound_socket
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from penstock.web.tls_server import SPAN, ServerTls
from tests.unit.ingress.ingress_requests import EVENT, Client, head

LIMIT = 60.0
REQUEST = head({**EVENT, "Host": "h", "Content-Length": "0"})

Transport = Literal["disabled", "permissive", "strict"]


class Running:
    """A server with both ports, and a time that the test sets."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.now = datetime.now(UTC) - SPAN.lasts + SPAN.renewed_before
        self.client = Client()
        self.tls = ServerTls(settings, lambda: self.now)
        self.tls.look()
        self.server = IngressServer(self.client.app, settings, TaskScope())
        self.plain, self.secure = bound_socket("127.0.0.1", 0), bound_socket("127.0.0.1", 0)
        self.trust = ssl.create_default_context(cafile=folder / "pki" / "ca.crt")

    @property
    def handshakes(self) -> int:
        """How many have not agreed upon TLS yet."""
        assert self.server.tls_acceptor is not None
        return len(self.server.tls_acceptor.handshakes)

    def takes(self, transport: Transport) -> None:
        """The feature is set so."""
        target = Target("b-uid", "Broker", "shop", "orders", ("/shop/orders",), transport=transport)
        self.client.app.targets = TargetTable([target])

    async def connect(self, *, secure: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = (self.secure if secure else self.plain).getsockname()[1]
        tls = self.trust if secure else None
        return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, ssl=tls), LIMIT)

    async def status(self, *, secure: bool) -> int:
        """What a request on a connection of its own is answered with."""
        reader, writer = await self.connect(secure=secure)
        writer.write(REQUEST)
        line = await asyncio.wait_for(reader.readline(), LIMIT)
        writer.close()
        return int(line.split()[1])


def on_uvloop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """The loop of the ingress, which is not that of other tests."""

    @functools.wraps(test)
    def run(*arguments: object, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test(*arguments, **fixtures))

    return run


@contextlib.asynccontextmanager
async def running(folder: Path, max_connections: int = 100) -> AsyncIterator[Running]:
    world = Running(folder, Settings(data_dir=folder, max_connections=max_connections, drain_seconds=0))
    await world.server.start(world.plain, world.secure, world.tls.context)
    try:
        yield world
    finally:
        await world.server.end()


@pytest.mark.parametrize(
    ("transport", "plain", "secure"), [("disabled", 202, 404), ("permissive", 202, 202), ("strict", 404, 202)]
)
@on_uvloop
async def test_each_mode_takes_events_where_it_should(
    tmp_path: Path, transport: Transport, plain: int, secure: int
) -> None:
    async with running(tmp_path) as world:
        world.takes(transport)
        assert (await world.status(secure=False), await world.status(secure=True)) == (plain, secure)


@on_uvloop
async def test_a_new_certificate_is_shown_without_ending_connections(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.takes("strict")
        reader, writer = await world.connect(secure=True)
        first = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        world.now += SPAN.lasts - SPAN.renewed_before + timedelta(minutes=1)
        assert world.tls.look()
        another = (await world.connect(secure=True))[1]
        assert another.get_extra_info("ssl_object").getpeercert(binary_form=True) != first
        writer.write(REQUEST)
        assert b" 202 " in await asyncio.wait_for(reader.readline(), LIMIT)
        for open_one in (writer, another):
            open_one.close()


@on_uvloop
async def test_clients_that_do_not_agree_upon_tls_take_no_place_from_others(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=2) as world:
        world.takes("strict")
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.secure.getsockname()[1])
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), LIMIT)
            writer.close()
        assert await world.status(secure=True) == 202
        assert world.handshakes == 0


@on_uvloop
async def test_there_is_an_end_to_those_who_never_handshake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.ingress.server.MAX_OVERLOADED", 3)
    async with running(tmp_path, max_connections=2) as world:
        world.takes("strict")
        silent = [await asyncio.open_connection("127.0.0.1", world.secure.getsockname()[1]) for _ in range(6)]
        gone = [asyncio.create_task(reader.read()) for reader, _ in silent]
        done, waiting = await asyncio.wait(gone, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(waiting), world.handshakes) == (1, 5, 5)
    await asyncio.wait(gone, timeout=LIMIT)
    for _, writer in silent:
        writer.close()
    assert world.handshakes == 0


@on_uvloop
async def test_what_comes_right_behind_the_agreement_is_not_lost(tmp_path: Path) -> None:
    """A client of TLS 1.3 may send its request together with the last word of the agreement."""
    async with running(tmp_path) as world:
        world.takes("strict")
        reader, writer = await asyncio.open_connection("127.0.0.1", world.secure.getsockname()[1])
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = world.trust.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await asyncio.wait_for(reader.read(65536), LIMIT))
        client.write(REQUEST)
        writer.write(outgoing.read())
        answer = b""
        while b"202" not in answer:
            incoming.write(await asyncio.wait_for(reader.read(65536), LIMIT))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += client.read()
        writer.close()


@on_uvloop
async def test_a_connection_beyond_the_limit_is_told_so_over_tls_too(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=1) as world:
        world.takes("permissive")
        _, first = await world.connect(secure=True)
        assert await world.status(secure=True) == 503
        first.close()
