"""The HTTP server of the components: TLS, what it says of itself, whom it believes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.runtime.lifecycle import Lifecycle
from penstock.runtime.sockets import bound_socket
from penstock.web.certificates import issue_certificate
from penstock.web.server import HttpServer, listen
from penstock.web.tls_context import load_pair
from tests.certificate_files import DAY, authority

OWN = authority("own")
NAME = "job-sink.knative-eventing.svc.cluster.local"
TEXT = b"HTTP/1.1 200 OK"


async def tell_how(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with how it was asked, and by whom."""
    body = f"{scope['scheme']} {scope['client'][0]}".encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpServer]:
    server = HttpServer(app, bound_socket("127.0.0.1", 0), tls)
    async with server.listening(grace=1):
        yield server


async def answer(server: HttpServer, *headers: str, trusting: ssl.SSLContext | None = None) -> bytes:
    host, port = server.address.split(":")
    name = None if trusting is None else NAME
    reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting, server_hostname=name)
    head = ["GET / HTTP/1.1", "host: x", "connection: close", *headers, "", ""]
    writer.write("\r\n".join(head).encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_with_a_certificate_it_speaks_tls_by_its_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = issue_certificate(OWN, "sinks", [NAME], DAY, datetime.now(UTC))
    load_pair(context, pair.certificate, pair.key)
    trusting = ssl.create_default_context(cadata=OWN.certificate.decode())
    async with listening(tell_how, context) as server:
        assert (await answer(server, trusting=trusting)).endswith(b"https 127.0.0.1")
    async with listening(tell_how) as server:
        assert (await answer(server)).endswith(b"http 127.0.0.1")


async def test_addresses_are_neither_logged_nor_taken_from_headers() -> None:
    async with listening(tell_how) as server:
        assert not server.config.access_log
        said = await answer(server, "x-forwarded-for: 10.1.2.3", "x-forwarded-proto: https")
    assert said.endswith(b"http 127.0.0.1")


async def test_an_answer_says_when_it_was_made_and_not_of_what_the_server_is_made() -> None:
    async with listening(tell_how) as server:
        head = (await answer(server)).lower()
    assert b"\r\ndate: " in head
    assert b"\r\nserver: " not in head


async def test_an_offer_of_websockets_is_answered_as_http() -> None:
    async with listening(tell_how) as server:
        assert (await answer(server, "connection: upgrade", "upgrade: websocket")).startswith(TEXT)


@pytest.mark.parametrize("aborts", [True, False], ids=["aborts", "closes"])
async def test_a_client_that_leaves_within_its_body_is_no_error(caplog: pytest.LogCaptureFixture, aborts: bool) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await Request(scope, receive).body()
        finally:
            ended.set()

    async with listening(app) as server:
        _, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nx")
        await begun.wait()
        if aborts:
            writer.transport.abort()
        else:
            writer.close()
        await ended.wait()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_request_under_way_at_the_end_is_finished_and_no_other_is_taken() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await may_end.wait()
        await tell_how(scope, receive, send)

    server = HttpServer(app, bound_socket("127.0.0.1", 0))
    address = server.address
    await server.start()
    asked = asyncio.create_task(answer(server))
    await begun.wait()
    ending = asyncio.create_task(server.stop(grace=60))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection(*address.split(":"))
    may_end.set()
    assert (await asked).startswith(TEXT)
    await ending


def test_a_port_that_is_taken_is_told_with_its_setting() -> None:
    lifecycle = Lifecycle()
    with bound_socket("127.0.0.1", 0) as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="cannot listen"):
            listen(lifecycle, "the console", "127.0.0.1", port, "console_port")
    [said] = lifecycle.said
    assert said["reason"].startswith(f"the console cannot listen on 127.0.0.1:{port}: ")
    assert said["reason"].endswith("; free the port or choose another with console_port")
