"""Connections to subscribers, on real sockets: kept, closed, refused and slow."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.contract.attempts import FailureCause
from penstock.contract.names import NameTable
from penstock.contract.routes import Endpoint, ServiceName
from penstock.destinations import Destinations
from penstock.dispatcher.http import dns, pool
from penstock.dispatcher.http.client import SubscriberClient, Unsendable
from penstock.dispatcher.http.connection import NoConnection, NoResponse, SubscriberResponse
from penstock.dispatcher.http.outcome import Withheld
from penstock.runtime.tasks import TaskScope
from penstock.settings import DestinationLists, Settings
from tests.running import held_ports
from tests.waiting import until

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
        self.closes_at: set[int] = set()
        """Requests, counted from the first, that are read and answered by the end of the connection."""
        self.begins_with = b""
        """What is sent before that."""

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
                if len(self.bodies) in self.closes_at:
                    writer.write(self.begins_with)
                    break
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
    made = SubscriberClient(1024 * 1024, Destinations(Settings(deliver_namespaces=RULES)), TaskScope())
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


async def test_a_kept_connection_that_the_subscriber_closes_costs_no_attempt(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)
    server.closes_at = {2}
    assert (await post(clients, Endpoint(server.url))).status == 202
    assert (await post(clients, Endpoint(server.url))).status == 202
    assert (server.made, len(server.bodies)) == (2, 3)


async def test_a_request_is_sent_once_more_only_where_the_connection_was_kept_and_nothing_of_an_answer_came(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)
    server.closes_at = {1, 3, 5}
    with pytest.raises(NoResponse):  # the connection was new
        await post(clients, Endpoint(server.url))
    assert (await post(clients, Endpoint(server.url))).status == 202
    server.begins_with = b"HTTP/1.1 202 Acc"
    with pytest.raises(NoResponse):
        await post(clients, Endpoint(server.url))
    assert len(server.bodies) == 3


async def test_a_connection_that_is_always_busy_ends_when_it_is_old(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)
    monkeypatch.setattr(pool, "MAX_AGE_SECONDS", 0.0)
    for _ in range(3):
        assert (await post(clients, Endpoint(server.url))).status == 202
    assert server.made == 3
    await until(lambda: server.open == 0, "the end of the old connections")


async def test_connections_of_the_same_time_do_not_all_end_at_once(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 600.0)
    server.may_answer.clear()
    began = asyncio.get_running_loop().time()
    requests = [asyncio.create_task(post(clients, Endpoint(server.url))) for _ in range(10)]
    await until(lambda: len(server.bodies) == 10, "ten requests at once")
    ended = asyncio.get_running_loop().time()
    server.may_answer.set()
    await asyncio.gather(*requests)
    [kept] = clients._pool._idle.values()
    ends = [connection.retires_at for connection in kept]
    assert len(set(ends)) == 10
    assert began + 45 <= min(ends)
    assert max(ends) <= ended + 60


async def test_a_name_of_the_snapshot_is_asked_at_its_address_by_its_name(
    server: Server, clients: SubscriberClient
) -> None:
    names = NameTable([ServiceName("sink.team.svc.cluster.local", {"80": (f"127.0.0.1:{server.port}",)})])
    await post(clients, Endpoint("http://sink.team.svc.cluster.local/a?b=c"), names=names)
    assert server.heads[0].startswith("POST /a?b=c HTTP/1.1\r\nhost: sink.team.svc.cluster.local\r\n")
    with pytest.raises(NoResponse, match="has no ready address"):
        await post(clients, Endpoint("http://sink.team.svc.cluster.local:81/"), names=names)


HOSTS = ("closed-beta.shop", "tls-gateway.shop", "refused-orders", "timeout.shop")


@pytest.mark.parametrize("host", HOSTS)
async def test_the_cause_of_a_failure_does_not_depend_on_the_name_of_the_host(
    server: Server, clients: SubscriberClient, host: str
) -> None:
    [closed] = held_ports(1)
    addresses = {"80": server.port, "81": closed}
    names = NameTable([ServiceName(host, {port: (f"127.0.0.1:{at}",) for port, at in addresses.items()})])

    async def cause(port: int, seconds: float = 60) -> FailureCause:
        with pytest.raises(NoResponse) as problem:
            await post(clients, Endpoint(f"http://{host}:{port}/"), names=names, seconds=seconds)
        return problem.value.cause

    server.closes_at = {1, 2}
    assert await cause(80) is FailureCause.CONNECTION_CLOSED
    server.begins_with = b"220 mail.example ESMTP\r\n"
    assert await cause(80) is FailureCause.NOT_HTTP
    server.may_answer.clear()
    assert await cause(80, seconds=0.2) is FailureCause.TIMEOUT
    assert await cause(81) is FailureCause.CONNECTION_REFUSED
    assert await cause(82) is FailureCause.NO_READY_ADDRESS
    server.may_answer.set()


async def test_a_large_event_arrives_whole(server: Server, clients: SubscriberClient) -> None:
    body = bytes(range(256)) * 4096
    assert (await post(clients, Endpoint(server.url), body)).status == 202
    assert server.bodies == [body]


async def test_a_server_that_reads_nothing_is_given_up_in_time(clients: SubscriberClient) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        with pytest.raises(NoResponse, match=r"no response within 1 s"):
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
    with pytest.raises(NoResponse, match=f"no connection to 127.0.0.1:{port}"):
        await post(clients, Endpoint(f"http://127.0.0.1:{port}/"))
    with pytest.raises(NoResponse, match=r"no connection to nobody\.invalid:80"):
        await post(clients, Endpoint("http://nobody.invalid/"))


async def test_a_name_is_asked_for_again_where_nothing_answers_at_its_address(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = iter([["127.0.0.2"], ["127.0.0.1"]])
    monkeypatch.setattr(dns, "system_lookup", lambda _: next(places))
    clients = SubscriberClient(1024, Destinations(Settings()), TaskScope())
    url = f"http://moved.example:{server.port}/"
    with pytest.raises(NoConnection):
        await post(clients, Endpoint(url))
    assert (await post(clients, Endpoint(url))).status == 202
    await clients.close()


async def test_what_is_missing_here_is_no_failure_of_the_subscriber(
    server: Server, clients: SubscriberClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cause(url: str, ca_certs: str | None = None) -> FailureCause:
        with pytest.raises(Withheld) as problem:
            await post(clients, Endpoint(url, ca_certs))
        return problem.value.cause

    assert await cause("https://127.0.0.1:1/", "no certificate") is FailureCause.CACERTS_UNREADABLE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert await cause(server.url) is FailureCause.OUT_OF_RESOURCES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await post(clients, Endpoint(server.url))).status == 202


@pytest.mark.parametrize("endpoint", [Endpoint("mailto:a@b"), Endpoint("http://")])
async def test_what_can_never_be_sent_says_so(clients: SubscriberClient, endpoint: Endpoint) -> None:
    with pytest.raises(Unsendable, match=re.escape(endpoint.url)):
        await post(clients, endpoint)
