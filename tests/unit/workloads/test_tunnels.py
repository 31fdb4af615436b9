"""Tunnels to Services by name: TLS with a Service's own certificate through them, and who is turned away."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import socket
import ssl
from urllib.parse import urlsplit

import pytest

from penstock.contract.names import Location, NameTable
from penstock.contract.routes import ServiceName
from penstock.workloads import proxy as http_proxy
from penstock.workloads.tunnels import Tunnels
from tests.certificate_files import authority
from tests.tls_sink import served

OWN = authority("own")
NAME = "sink.ns.svc.cluster.local"
PASSWORD = "of-this-node"
SHOWN = f"Basic {base64.b64encode(f'ns:{PASSWORD}'.encode()).decode()}"
CREDENTIALS = f"Proxy-Authorization: {SHOWN}\r\n\r\n".encode()
TRUSTING = ssl.create_default_context(cadata=OWN.certificate.decode())


def post(proxy: str, name: str, port: int = 443) -> int:
    """The status of an event that is sent to a name through the tunnel."""
    connection = http.client.HTTPSConnection(urlsplit(proxy).netloc, context=TRUSTING, timeout=60)
    with contextlib.closing(connection) as client:
        client.set_tunnel(name, port, {"Proxy-Authorization": SHOWN})
        client.request("POST", "/", b"x", {"ce-type": "t"})
        return client.getresponse().status


@pytest.mark.parametrize("name", [NAME, "sink.ns.svc", "sink"])
async def test_a_service_is_reached_by_its_names(name: str) -> None:
    with served(OWN, name) as sink:
        table = NameTable([ServiceName(NAME, {"443": (urlsplit(sink.url).netloc,)})])
        async with Tunnels(table.locate, PASSWORD).serve("127.0.0.1") as proxy:
            assert await asyncio.to_thread(post, proxy, name) == 202
    assert sink.types == ["t"]


async def test_another_name_is_connected_to_as_it_is() -> None:
    with served(OWN) as sink:
        async with Tunnels(Location, PASSWORD).serve("127.0.0.1") as proxy:
            assert await asyncio.to_thread(post, proxy, "127.0.0.1", sink.server_port) == 202


async def test_a_service_that_becomes_ready_is_waited_for() -> None:
    with served(OWN, NAME) as sink:
        ready = NameTable([ServiceName(NAME, {"443": (urlsplit(sink.url).netloc,)})])
        tables = iter([NameTable([ServiceName(NAME, {"443": ()})])] * 3)

        def locate(url: str) -> Location:
            return next(tables, ready).locate(url)

        async with Tunnels(locate, PASSWORD).serve("127.0.0.1") as proxy:
            assert await asyncio.to_thread(post, proxy, NAME) == 202


@pytest.mark.parametrize(
    ("name", "port", "status"),
    [("sink.ns.svc", 443, 503), ("nobody.ns.svc", 443, 503), ("sink.ns.svc", 8443, 502), ("127.0.0.1", 1, 502)],
)
async def test_nothing_there_is_told(monkeypatch: pytest.MonkeyPatch, name: str, port: int, status: int) -> None:
    monkeypatch.setattr(http_proxy, "WAIT_SECONDS", 0.2)
    table = NameTable([ServiceName(NAME, {"443": (), "8443": ("127.0.0.1:1",)})])
    async with Tunnels(table.locate, PASSWORD).serve("127.0.0.1") as proxy:
        with pytest.raises(OSError, match=f"Tunnel connection failed: {status}"):
            await asyncio.to_thread(post, proxy, name, port)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET http://sink/ HTTP/1.1\r\n" + CREDENTIALS, b"HTTP/1.1 405"),
        (b"CONNECT sink HTTP/1.1\r\n" + CREDENTIALS, b"HTTP/1.1 400"),
        (b"CONNECT sink:port HTTP/1.1\r\n" + CREDENTIALS, b"HTTP/1.1 400"),
        (b"\r\n" + CREDENTIALS, b"HTTP/1.1 405"),
        (b"\r\n\r\n", b"HTTP/1.1 407"),
        (b"CONNECT " + b"x" * 100_000, b"HTTP/1.1 400"),
    ],
)
async def test_what_is_no_request_for_a_tunnel_is_answered_so(sent: bytes, answer: bytes) -> None:
    async with Tunnels(Location, PASSWORD).serve("127.0.0.1") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)
        writer.write(sent)
        assert (await reader.read(12)) == answer
        writer.close()


@pytest.mark.parametrize("password", ["", "another"])
async def test_without_the_password_there_is_no_tunnel(password: str) -> None:
    """A process of another account, say, which would connect as penstock's account."""
    with socket.create_server(("127.0.0.1", 0)) as far:
        far.setblocking(False)
        async with Tunnels(Location, PASSWORD).serve("127.0.0.1") as proxy:
            shown = base64.b64encode(f"ns:{password}".encode())
            for line in (b"", b"Proxy-Authorization: Basic " + shown + b"\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)
                writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n%b\r\n" % (far.getsockname()[1], line))
                answer = await reader.read()
                assert answer.startswith(b"HTTP/1.1 407 ")
                assert b'\r\nproxy-authenticate: Basic realm="penstock"\r\n' in answer
                writer.close()
        with pytest.raises(BlockingIOError):
            far.accept()


async def test_the_end_of_one_side_is_told_to_the_other() -> None:
    far = socket.create_server(("127.0.0.1", 0))
    async with Tunnels(Location, PASSWORD).serve("127.0.0.1") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(proxy).port)
        writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % far.getsockname()[1] + CREDENTIALS)
        taken, _ = await asyncio.to_thread(far.accept)
        with taken, far:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.write(b"request")
            writer.write_eof()
            taken.settimeout(5)
            assert await asyncio.to_thread(taken.recv, 100) == b"request"
            assert await asyncio.to_thread(taken.recv, 100) == b""
            taken.sendall(b"answer")
        assert await reader.read() == b"answer"
        writer.close()
