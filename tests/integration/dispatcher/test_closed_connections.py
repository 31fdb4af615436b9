"""Connections that subscribers close, on real sockets and both event loops: what is sent again, and what counts."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from penstock.contract.names import NameTable
from penstock.contract.routes import Endpoint, ServiceName
from penstock.destinations import Destinations
from penstock.dispatcher.http import pool
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import ClosedWithoutResponse, NoConnection, NoResponse, ResetWithoutResponse
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.running import held_ports
from tests.waiting import until

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
LARGE = b"x" * 8_000_000
"""More than the sockets between both ends hold."""


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a scene in which connections are kept however long the machine pauses."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)

    def on_loop(scene: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scene)

    return on_loop


class Subscriber(asyncio.Protocol):
    """One connection of a server that answers every request; a test says what it does otherwise."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.requests = 0
        self.is_busy = True
        """Until its first answer a connection has a request on its way."""
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.server.made += 1
        self.number = self.server.made
        self.server.open.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.server.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if end and self.server.at_head(self):
            return
        if not end or len(body) < int(head.rpartition(b"content-length: ")[2]):
            self.is_busy = True
            return
        self._read = b""
        self.requests += 1
        self.is_busy = False
        self.transport.write(ACCEPTED)
        self.server.answered(self)


class Server:
    """A subscriber as a whole."""

    def __init__(
        self,
        at_head: Callable[[Subscriber], bool] = lambda _: False,
        answered: Callable[[Subscriber], None] = lambda _: None,
    ) -> None:
        """`at_head`: called when the head of a request is there; whether the request is left alone."""
        self.at_head, self.answered = at_head, answered
        self.made = 0
        self.open: set[Subscriber] = set()

    async def listen(self, sock: socket.socket | None = None) -> Server:
        made = sock or socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(made.getsockname()[1])
        self._listening = await asyncio.get_running_loop().create_server(lambda: Subscriber(self), sock=made)
        return self

    async def end(self) -> None:
        """In order: accepts no more, closes what is idle, and finishes the rest."""
        self._listening.close()
        while self.open:
            for connection in tuple(self.open):
                if not connection.is_busy:
                    connection.transport.close()
            await asyncio.sleep(0.001)


class Sender:
    """Sends to a server."""

    def __init__(self, url: str, names: NameTable | None = None) -> None:
        self.client = SubscriberClient(1024, Destinations(Settings()), TaskScope())
        self._endpoint, self._names = Endpoint(url), names or NameTable()

    async def send(self, body: bytes = b"x") -> int:
        answer = await self.client.post(
            self._endpoint, self._names, b"ce-id: 1\r\n", body, namespace="team", seconds=120, reply_counts=True
        )
        return answer.status


Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.mark.parametrize("end", ["close", "abort", "write_eof"])
def test_a_subscriber_that_closes_connections_shortly_after_a_response_fails_no_request(run: Run, end: str) -> None:
    chance = random.Random(1)

    def soon_closed(connection: Subscriber) -> None:
        if connection.requests == 1:
            asyncio.get_running_loop().call_later(chance.uniform(0, 0.006), getattr(connection.transport, end))

    async def scene() -> None:
        server = await Server(answered=soon_closed).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")

        async def work() -> list[int]:
            statuses = []
            for _ in range(60):
                statuses.append(await sender.send())
                await asyncio.sleep(chance.uniform(0, 0.006))
            return statuses

        statuses = [status for some in await asyncio.gather(*(work() for _ in range(10))) for status in some]
        assert Counter(statuses) == {202: 600}
        assert server.made > 10
        await sender.client.close()
        await server.end()

    run(scene())


def test_a_connection_whose_other_end_was_closed_is_noticed_before_it_is_used_again(run: Run) -> None:
    def closed_at_one_end(connection: Subscriber) -> None:
        connection.transport.write_eof()  # and would still read

    async def scene() -> None:
        server = await Server(answered=closed_at_one_end).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")
        for made in (1, 2, 3):
            assert await sender.send() == 202
            await until(lambda: not server.open, "the end of the connection")
            assert server.made == made
        await sender.client.close()
        await server.end()

    run(scene())


@pytest.mark.parametrize("end", ["close", "abort", "write_eof"])
def test_a_kept_connection_that_ends_in_the_middle_of_a_large_body_costs_no_attempt(run: Run, end: str) -> None:
    def ends(connection: Subscriber) -> bool:
        if connection.number > 1 or not connection.requests:
            return False
        connection.transport.pause_reading()
        if end == "close":
            connection.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        getattr(connection.transport, end)()
        return True

    async def scene() -> None:
        server = await Server(at_head=ends).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")
        assert await sender.send() == 202
        async with asyncio.timeout(60):  # half of what the request may take
            assert await sender.send(LARGE) == 202
        assert server.made == 2
        await sender.client.close()
        for connection in tuple(server.open):
            connection.transport.abort()
        await server.end()

    run(scene())


def test_a_new_connection_that_is_reset_is_made_once_more(run: Run) -> None:
    resets = 1

    def reset(connection: Subscriber) -> bool:
        if connection.number <= resets:
            connection.transport.abort()  # with bytes unread, so that the system says more than that it ends
        return connection.number <= resets

    async def scene() -> None:
        nonlocal resets
        server = await Server(at_head=reset).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")
        assert await sender.send(LARGE) == 202
        assert server.made == 2
        await sender.client.close()
        resets, server.made = 100, 0
        with pytest.raises(ResetWithoutResponse):
            await sender.send(LARGE)
        assert server.made == 2
        await sender.client.close()
        await server.end()

    run(scene())


def test_a_new_connection_that_is_closed_without_an_answer_counts(run: Run) -> None:
    def close(connection: Subscriber) -> bool:
        connection.transport.close()
        return True

    async def scene() -> None:
        server = await Server(at_head=close).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")
        with pytest.raises(ClosedWithoutResponse):
            await sender.send()
        assert server.made == 1
        await sender.client.close()
        await server.end()

    run(scene())


def shared_listener(port: int) -> socket.socket:
    """A socket that listens beside others at the same port; pending connections end with it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    made.listen(512)
    return made


def test_a_subscriber_that_hands_its_port_over_and_ends_in_order_sees_no_failed_attempt(run: Run) -> None:
    async def scene() -> None:
        at_work = await Server().listen(shared_listener(0))
        sender = Sender(f"http://127.0.0.1:{at_work.port}/")
        statuses: Counter[int] = Counter()
        is_over = False

        async def work() -> None:
            while not is_over:
                statuses[await sender.send()] += 1

        working = [asyncio.create_task(work()) for _ in range(20)]
        for _ in range(10):
            sent = statuses.total()
            await until(lambda sent=sent: statuses.total() > sent + 50, "some requests")  # type: ignore[misc]
            before, at_work = at_work, await Server().listen(shared_listener(at_work.port))
            await before.end()
        is_over = True
        await asyncio.gather(*working)
        assert set(statuses) == {202}
        await sender.client.close()
        await at_work.end()

    run(scene())


def test_another_pod_of_a_service_is_tried_where_one_takes_no_connections_any_more(run: Run) -> None:
    async def scene() -> None:
        server = await Server().listen()
        gone, gone_too = held_ports(2)
        every = (f"127.0.0.1:{gone}", f"127.0.0.1:{server.port}")
        sender = Sender("http://sink.team/", NameTable([ServiceName("sink.team.svc.cluster.local", {"80": every})]))
        assert [await sender.send() for _ in range(4)] == [202] * 4
        await sender.client.close()
        nowhere = (f"127.0.0.1:{gone}", f"127.0.0.1:{gone_too}")
        lost = Sender("http://sink.team/", NameTable([ServiceName("sink.team.svc.cluster.local", {"80": nowhere})]))
        with pytest.raises(NoConnection, match="Connect"):
            await lost.send()
        await lost.client.close()
        await server.end()

    run(scene())


def test_a_request_is_not_sent_again_when_its_answer_has_begun(run: Run) -> None:
    def begins(connection: Subscriber) -> bool:
        if not connection.requests:
            return False
        connection.transport.write(b"HTTP/1.1 2")
        connection.transport.close()
        return True

    async def scene() -> None:
        server = await Server(at_head=begins).listen()
        sender = Sender(f"http://127.0.0.1:{server.port}/")
        assert await sender.send() == 202
        with pytest.raises(NoResponse) as problem:
            await sender.send()
        assert not isinstance(problem.value, ClosedWithoutResponse)
        assert server.made == 1
        with contextlib.suppress(NoResponse):
            await sender.client.close()
        await server.end()

    run(scene())
