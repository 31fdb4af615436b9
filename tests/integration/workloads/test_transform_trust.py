"""What an EventTransform takes of its sink: by which authorities it believes it over TLS, and how much it reads."""

from __future__ import annotations

import asyncio
import contextlib
import io
import resource
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, cast

from pyreqwest.client import ClientBuilder

from penstock.contract.names import Target
from penstock.workloads.actors.node_line import NodeLine, NodeRefused, Reach
from penstock.workloads.actors.outgoing import Outgoing
from penstock.workloads.actors.reporting import PodLog
from penstock.workloads.actors.shown_certificate import ShownCertificate
from penstock.workloads.actors.transform import Transform
from tests.certificate_files import authority
from tests.tls_sink import served

OWN, OTHER = authority("own"), authority("other")
EXPRESSION = '{"specversion": "1.0", "id": id, "source": source, "type": "changed"}'
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
NAME = "sink.ns.svc.cluster.local"
MOST_BYTES = 1024 * 1024

Send = Callable[[], Awaitable[int]]


class Node:
    """Where the sink is, and the trust bundles."""

    def __init__(self, target: Target | None, bundles: str = "") -> None:
        """Without a target the sink is refused."""
        self.target, self.bundles = target, bundles

    async def ask(self, name: str, kind: Any, /, **arguments: str) -> Any:
        assert (name, arguments) == ("locate", {"url": f"https://{NAME}"})
        if self.target is None:
            raise NodeRefused("127.0.0.9 is refused as a destination")
        return Reach([self.target], self.bundles)


def no_tls(service: str) -> ShownCertificate:
    raise AssertionError(f"a certificate of {service} was asked for")


@contextlib.asynccontextmanager
async def transforming(node: Node, log: io.StringIO) -> AsyncIterator[Send]:
    """A transformation; sending an event to it gives the status of the answer."""
    listener, ready = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    env = {"JSONATA_TRANSFORM": EXPRESSION, "K_SINK": f"https://{NAME}"}
    outgoing = Outgoing(cast(NodeLine, node), MOST_BYTES)
    actor = Transform(env, PodLog(log), outgoing, lambda _: listener, tls_of=no_tls)
    running = asyncio.create_task(actor.run(ready.set))
    async with ClientBuilder().no_proxy().build() as producer, asyncio.timeout(60):
        await ready.wait()

        async def status() -> int:
            sent = producer.post(url).header("content-type", "application/cloudevents+json").body_text(EVENT)
            return (await sent.build().send()).status

        yield status
    actor.stop(0)
    await running


async def test_trust_bundles_count_from_the_next_event_on() -> None:
    log = io.StringIO()
    with served(OWN) as sink:
        node = Node(Target(sink.url))
        async with transforming(node, log) as status:
            assert await status() == 500
            node.bundles = OTHER.certificate.decode()
            assert await status() == 500
            node.bundles += OWN.certificate.decode()
            assert await status() == 202
            node.bundles = ""
            assert await status() == 500
    assert len(sink.types) == 1
    refused = log.getvalue().splitlines()
    assert len(refused) == 3
    assert all("ConnectError" in line for line in refused)


async def test_a_sink_of_the_cluster_is_believed_by_its_name() -> None:
    with served(OWN, NAME) as sink:
        port = int(sink.url.rstrip("/").rpartition(":")[2])
        target = Target(f"https://{NAME}:{port}/", NAME, (NAME, "127.0.0.1", port))
        async with transforming(Node(target, OWN.certificate.decode()), io.StringIO()) as status:
            assert await status() == 202
    assert len(sink.types) == 1


@contextlib.asynccontextmanager
async def wait_until_ready(
    head: str, body: Callable[[], list[bytes]], heads: list[bytes] | None = None
) -> AsyncIterator[Target]:
    """A sink that gives this answer, and notes the heads of requests."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            asked = await reader.readuntil(b"\r\n\r\n")
            if heads is not None:
                heads.append(asked)
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{head}\r\n\r\n".encode())
            for part in body():
                writer.write(part)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", NAME)


async def test_a_header_names_no_other_host() -> None:
    heads: list[bytes] = []
    async with wait_until_ready("Content-Length: 0", list, heads) as target:
        outgoing = Outgoing(cast(NodeLine, Node(target)), MOST_BYTES)
        answer = await outgoing.send("GET", f"https://{NAME}", [("hOST", "169.254.169.254"), ("X-Own", "kept")])
        await outgoing.close()
    assert answer.status == 200
    lines = {line.lower() for line in heads[0].split(b"\r\n") if line.lower().startswith((b"host:", b"x-own:"))}
    assert lines == {f"host: {NAME}".encode(), b"x-own: kept"}


async def test_an_answer_is_not_unpacked() -> None:
    packed = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packed.compress(bytes(1024 * 1024)) for _ in range(300)) + packed.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head, log = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}", io.StringIO()
    async with wait_until_ready(head, lambda: [bomb]) as target, transforming(Node(target), log) as status:
        assert await status() == 500
    assert "unexpected Content-Encoding of the response: gzip" in log.getvalue()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


async def test_an_answer_is_read_up_to_the_size_of_an_event() -> None:
    for size, status_of, told in ((MOST_BYTES, 200, ""), (MOST_BYTES + 1, 500, f"more than {MOST_BYTES} bytes")):
        log = io.StringIO()
        parts = [bytes(size // 4)] * 4 + [bytes(size % 4)]
        answered = wait_until_ready("Connection: close", partial(list, parts))
        async with answered as target, transforming(Node(target), log) as status:
            assert await status() == status_of
        assert told in log.getvalue()


async def test_a_sink_that_is_refused_is_told_to_the_sender() -> None:
    log = io.StringIO()
    async with transforming(Node(None), log) as status:
        assert await status() == 500
    assert "127.0.0.9 is refused as a destination" in log.getvalue()
