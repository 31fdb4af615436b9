"""Connections to subscribers, on real sockets: kept, closed, refused and slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from dispatcher_stage import until

from penstock.contract.names import NameTable
from penstock.contract.routes import Endpoint, ServiceName
from penstock.destinations import Destinations
from penstock.dispatcher.http import pool
from penstock.dispatcher.http.client import SubscriberClient, Unsendable
from penstock.dispatcher.http.connection import NoAnswer, NoConnection, SubscriberResponse
from penstock.log.threads import Owner
from penstock.settings import DestinationLists, Settings

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
RULES = {"confined": DestinationLists.model_validate({"deny": ["127.0.0.0/8"]})}


class Server:
    """Counts connections, and answers when it may."""

    def __init__(self) -> None:
        self.made = self.open = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        self.open += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                await self.may_answer.wait()
                writer.write(ACCEPTED)
        self.open -= 1
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()


@pytest.fixture
async def clients() -> AsyncIterator[SubscriberClient]:
    made = SubscriberClient(1024 * 1024, Destinations(Settings(deliver_namespaces=RULES)), Owner())
    yield made
    await made.close()


async def post(
    clients: SubscriberClient,
    endpoint: Endpoint,
    body: bytes = b"x",
    seconds: float = 60,
    names: NameTable | None = None,
    namespace: str = "default",
) -> SubscriberResponse:
    table, lines = names or NameTable(), b"ce-id: 1\r\n"
    return await clients.post(endpoint, table, lines, body, namespace=namespace, seconds=seconds, reply_counts=True)


async def test_a_namespace_that_may_not_deliver_there_does_not_even_use_the_connection_of_another(
    server: Server, clients: SubscriberClient
) -> None:
    assert (await post(clients, Endpoint(server.url))).status == 202
    with pytest.raises(NoConnection, match=r"127\.0\.0\.1 is refused as a destination: 127\.0\.0\.0/8 is in"):
        await post(clients, Endpoint(server.url), namespace="confined")
    assert server.made == 1


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "2852039166", "224.0.0.1"])
async def test_addresses_that_nobody_means_are_refused_however_they_are_written(
    clients: SubscriberClient, host: str
) -> None:
    with pytest.raises(NoConnection, match="is refused as a destination"):
        await post(clients, Endpoint(f"http://{host}/"))


async def test_a_connection_is_kept_and_closed_when_it_is_not_needed(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)  # so that a machine that pauses closes none
    for _ in range(5):
        assert (await post(clients, Endpoint(server.url))).status == 202
    assert (server.made, len(server.bodies)) == (1, 5)
    server.may_answer.clear()
    requests = [asyncio.create_task(post(clients, Endpoint(server.url))) for _ in range(4)]
    await until(lambda: len(server.bodies) == 9, "four requests at once")
    server.may_answer.set()
    await asyncio.gather(*requests)
    assert (server.made, server.open) == (4, 4)
    monkeypatch.undo()
    await until(lambda: server.open == 0, "the end of those that nobody needs")
    assert (await post(clients, Endpoint(server.url))).status == 202


async def test_a_name_of_the_snapshot_is_asked_at_its_address_by_its_name(
    server: Server, clients: SubscriberClient
) -> None:
    names = NameTable([ServiceName("sink.team.svc.cluster.local", {"80": (f"127.0.0.1:{server.port}",)})])
    await post(clients, Endpoint("http://sink.team.svc.cluster.local/a?b=c"), names=names)
    assert server.heads[0].startswith("POST /a?b=c HTTP/1.1\r\nhost: sink.team.svc.cluster.local\r\n")
    with pytest.raises(NoAnswer, match="has no ready address"):
        await post(clients, Endpoint("http://sink.team.svc.cluster.local:81/"), names=names)


async def test_a_large_event_arrives_whole(server: Server, clients: SubscriberClient) -> None:
    body = bytes(range(256)) * 4096
    assert (await post(clients, Endpoint(server.url), body)).status == 202
    assert server.bodies == [body]


async def test_a_server_that_reads_nothing_is_given_up_in_time(clients: SubscriberClient) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        with pytest.raises(NoAnswer, match=r"no answer within 1 s"):
            await post(clients, Endpoint(url), b"x" * 8_000_000, seconds=1)


async def test_a_request_that_is_cancelled_leaves_nothing_behind(server: Server, clients: SubscriberClient) -> None:
    server.may_answer.clear()
    request = asyncio.create_task(post(clients, Endpoint(server.url)))
    while not server.bodies:  # noqa: ASYNC110  # the server has no event for it
        await asyncio.sleep(0.01)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    server.may_answer.set()
    assert (await post(clients, Endpoint(server.url))).status == 202
    assert server.made == 2, "the connection with the old answer is not used"


async def test_nobody_there_is_no_answer(clients: SubscriberClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(NoAnswer, match=f"no connection to 127.0.0.1:{port}"):
        await post(clients, Endpoint(f"http://127.0.0.1:{port}/"))
    with pytest.raises(NoAnswer, match=r"no connection to nobody\.invalid:80"):
        await post(clients, Endpoint("http://nobody.invalid/"))


@pytest.mark.parametrize(
    "endpoint",
    [Endpoint("mailto:a@b"), Endpoint("http://"), Endpoint("https://127.0.0.1:1/", ca_certs="no certificate")],
)
async def test_what_can_never_be_sent_says_so(clients: SubscriberClient, endpoint: Endpoint) -> None:
    with pytest.raises(Unsendable):
        await post(clients, endpoint)
