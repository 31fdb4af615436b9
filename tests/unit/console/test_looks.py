"""Metrics of roles elsewhere: a name that leads to several Pods is asked at each, by name, over TLS too."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.roles.health import endpoint_certificate
from penstock.observability.metrics import ACCEPTED
from penstock.operations.metrics_client import MetricsPage, counted_at, pages_of
from penstock.operations.route_rates import TargetName
from penstock.runtime.errors import UserError
from penstock.settings import Settings
from penstock.web.tls_server import SecureServing

NAME = "broker-ingress.knative-eventing.svc"
"""A name that the data folder's own certificate has."""
BROKER = TargetName("Broker", "default", "orders")
V4, V6 = socket.AF_INET, socket.AF_INET6


def leading_to(*addresses: str) -> Any:
    """A resolver that knows one name."""

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(V6 if ":" in one else V4, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    return resolve


class _Server(SecureServing, ThreadingHTTPServer):
    daemon_threads = True


@contextlib.contextmanager
def pod(address: str, port: int, accepted: int, settings: Settings) -> Iterator[tuple[int, list[str]]]:
    """One process that tells how many events it has accepted, and remembers by which names it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Host"])
            labels = f'kind="{BROKER.kind}",namespace="{BROKER.namespace}",name="{BROKER.name}"'
            body = f"# TYPE {ACCEPTED.name} counter\n{ACCEPTED.name}{{{labels}}} {accepted}\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing to say."""

    server = _Server((address, port), Handler)
    server.certificate = endpoint_certificate(settings)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("tls", [False, True])
def test_every_pod_of_a_name_is_asked_and_their_numbers_are_added_up(tmp_path: Path, tls: bool) -> None:
    settings = Settings(data_dir=tmp_path, tls=tls)
    with pod("127.0.0.1", 0, 3, settings) as (port, first), pod("127.0.0.2", port, 4, settings) as (_, second):
        url = f"{settings.scheme}://{NAME}:{port}/metrics"
        authority = tmp_path / "pki" / "ca.crt" if tls else None
        counted = counted_at([url], authority, leading_to("127.0.0.1", "127.0.0.2"))
        assert counted.targets == {BROKER: 7}
        assert first == second == [f"{NAME}:{port}"]


def test_a_pod_whose_certificate_has_another_name_is_not_believed(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, tls=True)
    with pod("127.0.0.1", 0, 3, settings) as (port, asked), pod("127.0.0.2", port, 4, settings):
        resolve = leading_to("127.0.0.1", "127.0.0.2")
        with pytest.raises(UserError, match="cannot be read"):
            counted_at([f"https://elsewhere.example.org:{port}/metrics"], tmp_path / "pki" / "ca.crt", resolve)
        assert asked == []


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["::1", "127.0.0.1"]], ids=["one address", "one of each kind"])
def test_a_name_of_one_process_is_left_to_the_client(addresses: list[str]) -> None:
    url = "http://localhost:9093/metrics"
    assert pages_of(url, leading_to(*addresses)) == [MetricsPage(url)]


def test_addresses_of_ipv6_are_in_brackets() -> None:
    pages = pages_of("http://pods:9093/metrics", leading_to("fd00::1", "fd00::2", "fd00::1"))
    assert [page.url for page in pages] == ["http://[fd00::1]:9093/metrics", "http://[fd00::2]:9093/metrics"]
    assert {page.host for page in pages} == {"pods:9093"}


def test_a_name_that_leads_nowhere_is_told() -> None:
    def nowhere(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror("no such name")

    with pytest.raises(UserError, match=r"http://pods\.invalid:1/metrics cannot be read"):
        counted_at(["http://pods.invalid:1/metrics"], None, nowhere)
