"""Subscribers over real TLS: by what they are believed, and what those that ask who we are get to see."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from penstock.contract.names import NameTable
from penstock.contract.routes import Endpoint
from penstock.destinations import Destinations
from penstock.dispatcher.http import pool
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import NoResponse
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from penstock.web.certificates import KeyPair, issue_certificate
from penstock.web.tls_clients import ClientCertificate
from penstock.web.tls_context import load_pair
from tests.certificate_files import DAY, authority, client_of

CLIENTS, STRANGERS, SERVERS = authority("clients"), authority("strangers"), authority("servers")


def run(scene: Coroutine[Any, Any, None]) -> None:
    """On the dispatcher's loop, whose TLS is its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene)


class Subscriber(ThreadingHTTPServer):
    """Takes requests of clients that its authority vouches for."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        (folder / "clients.pem").write_bytes(CLIENTS.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = issue_certificate(SERVERS, "subscriber", ["127.0.0.1"], DAY, datetime.now(UTC))
        load_pair(context, pair.certificate, pair.key)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "clients.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.names: list[str] = []
        """Who sent each request, as the certificate says."""

    @property
    def stranger(self) -> Endpoint:
        """The same, where nothing is known of its authority."""
        return Endpoint(self.endpoint.url)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"https://127.0.0.1:{self.server_port}/", SERVERS.certificate.decode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are refused are what the tests are about."""


class Taking(BaseHTTPRequestHandler):
    """Answers on connections that are kept."""

    protocol_version = "HTTP/1.1"
    server: Subscriber

    def do_POST(self) -> None:
        subject = cast("ssl.SSLSocket", self.connection).getpeercert() or {}
        self.server.names.append(str(subject["subject"][0][0][1]))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests have other means."""


@contextlib.asynccontextmanager
async def between(folder: Path) -> AsyncIterator[tuple[Subscriber, SubscriberClient]]:
    subscriber = Subscriber(folder)
    thread = threading.Thread(target=subscriber.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    client = SubscriberClient(1000, Destinations(Settings()), TaskScope())
    try:
        yield subscriber, client
    finally:
        await client.close()
        subscriber.shutdown()
        subscriber.server_close()
        thread.join()


async def send(
    subscriber: Subscriber,
    client: SubscriberClient,
    pair: KeyPair | ClientCertificate | None,
    endpoint: Endpoint | None = None,
) -> str:
    """What became of a request: its status, or the reason that `Delivering` would have."""
    certificate = ClientCertificate(pair) if isinstance(pair, KeyPair) else pair
    try:
        answer = await client.post(
            endpoint or subscriber.endpoint,
            NameTable(),
            b"",
            b"",
            namespace="team",
            seconds=60.0,
            reply_counts=False,
            certificate=certificate,
        )
    except NoResponse as problem:
        return problem.cause.value
    return str(answer.status)


def test_the_certificate_of_the_route_is_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        async with between(tmp_path) as (subscriber, client):
            assert await send(subscriber, client, client_of(CLIENTS, "till")) == "202"
            assert subscriber.names == ["till"]

    run(scene())


@pytest.mark.parametrize("pair", [None, client_of(STRANGERS, "till")], ids=["none", "of a stranger"])
def test_a_refused_certificate_is_told_as_that(tmp_path: Path, pair: KeyPair | None) -> None:
    async def scene() -> None:
        async with between(tmp_path) as (subscriber, client):
            assert await send(subscriber, client, pair) == "ClientCertificateRefused"
            assert subscriber.names == []

    run(scene())


def test_connections_are_shared_by_who_shows_the_same_certificate_only(tmp_path: Path) -> None:
    async def scene() -> None:
        first, renewed = (ClientCertificate(client_of(CLIENTS, name)) for name in ("first", "renewed"))
        async with between(tmp_path) as (subscriber, client):
            for certificate in (first, first, renewed, renewed, first):
                assert await send(subscriber, client, certificate) == "202"
            assert subscriber.names == ["first", "first", "renewed", "renewed", "first"]
            assert await send(subscriber, client, None) == "ClientCertificateRefused"

    run(scene())


def test_a_trust_bundle_that_is_removed_is_noticed_under_steady_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_AGE_SECONDS", 0.0)

    async def scene() -> None:
        certificate = ClientCertificate(client_of(CLIENTS, "till"))
        async with between(tmp_path) as (subscriber, client):
            client.trust(SERVERS.certificate.decode())
            assert await send(subscriber, client, certificate, subscriber.stranger) == "202"
            client.trust("")
            assert await send(subscriber, client, certificate, subscriber.stranger) == "CertificateRefused"

    run(scene())


def test_a_trust_bundle_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    async def scene() -> None:
        certificate = ClientCertificate(client_of(CLIENTS, "till"))
        async with between(tmp_path) as (subscriber, client):
            assert await send(subscriber, client, certificate, subscriber.stranger) == "CertificateRefused"
            client.trust(STRANGERS.certificate.decode())
            assert await send(subscriber, client, certificate, subscriber.stranger) == "CertificateRefused"
            client.trust(STRANGERS.certificate.decode() + SERVERS.certificate.decode())
            assert await send(subscriber, client, certificate, subscriber.stranger) == "202"

    run(scene())
