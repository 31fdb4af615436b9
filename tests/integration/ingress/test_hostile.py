"""Requests that are no requests: each is answered with 4xx or cut off, and the ingress serves on."""

from __future__ import annotations

import random
import re
import socket
import time
import uuid

import pytest

from penstock.ingress.connection import HEAD_SECONDS
from tests.integration.ingress.ingress_processes import EVENT, IngressProcess, stored_events, stored_ids


def raw(ingress: IngressProcess, data: bytes, ended: bool = False, patience: float = 1) -> bytes:
    """Sends bytes and returns what comes back: until the server closes, or nothing more comes.

    Where something must come, `patience` is what a slow machine needs.
    """
    answer = b""
    with socket.create_connection(("127.0.0.1", ingress.settings.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            if ended:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(patience)
            while chunk := connection.recv(65536):
                answer += chunk
                connection.settimeout(0.05)
        except OSError:
            pass
    return answer


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


POST = ("POST /shop/orders HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in EVENT.items()))


@pytest.fixture(autouse=True)
def serves_on(ingress: IngressProcess) -> object:
    yield
    assert ingress.post("/shop/orders", {**EVENT, "ce-id": "after"})[0] == 202


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02\x03 garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        head("POST /shop/\xff HTTP/1.1", "Host: x"),
        head(*POST, "ce-id: 1", "Content-Length: 5", "Content-Length: 6") + b"hello",
        head(*POST, "ce-id: 1", "Content-Length: -5"),
        head(*POST, "ce-id: 1", "Content-Length: 99999999999999999999999999"),
        head(*POST, "ce-id: 1", "Transfer-Encoding: chunked") + b"zz\r\nhello\r\n0\r\n\r\n",
        head(*POST, "ce-id: 1", "Transfer-Encoding: chunked", "Content-Length: 3") + b"0\r\n\r\n",
        head(*POST, "ce-id: 1", "ce-id: 2", "Content-Length: 0"),
        head(*POST, "ce-id: a%0d%0ab", "Content-Length: 0"),
        head(*POST, "ce-id: %", "Content-Length: 0"),
        head("CONNECT x:1 HTTP/1.1", "Host: x"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=range(13),
)
def test_broken_requests_are_refused(ingress: IngressProcess, request_bytes: bytes) -> None:
    answer = raw(ingress, request_bytes)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]


def test_endless_headers_are_cut_off(ingress: IngressProcess) -> None:
    answer = raw(ingress, head(*POST)[:-4] + b"\r\nx-endless: " + b"x" * 2_000_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:200]


def test_headers_that_trickle_are_answered_408(ingress: IngressProcess) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", ingress.settings.port), timeout=1) as connection:
        connection.sendall(head(*POST)[:-2])
        answer = b""
        while not answer and time.monotonic() - began < HEAD_SECONDS + 60:
            connection.sendall(b"x")
            try:
                answer = connection.recv(4096)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408"), answer
    assert time.monotonic() - began >= HEAD_SECONDS - 1


def test_a_large_body_is_refused_before_it_is_sent(ingress: IngressProcess) -> None:
    answer = raw(ingress, head(*POST, "ce-id: 1", "Content-Length: 999999999", "Expect: 100-continue"), patience=60)
    assert answer.startswith(b"HTTP/1.1 413")


def test_an_endless_chunked_body_is_refused(ingress: IngressProcess) -> None:
    chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
    answer = raw(ingress, head(*POST, "ce-id: 1", "Transfer-Encoding: chunked") + chunk * 20, patience=60)
    assert answer.startswith(b"HTTP/1.1 413")


def test_an_event_whose_sender_went_away_is_not_stored(ingress: IngressProcess) -> None:
    ident = uuid.uuid4().hex
    raw(ingress, head(*POST, f"ce-id: {ident}", "Content-Length: 100") + b"half", ended=True)
    assert ident not in stored_ids(ingress.settings)


def test_an_offer_to_upgrade_does_not_matter(ingress: IngressProcess) -> None:
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    ident = uuid.uuid4().hex
    answer = raw(ingress, head(*POST, f"ce-id: {ident}", *offer, "Content-Length: 5") + b"hello", patience=60)
    assert answer.startswith(b"HTTP/1.1 202")
    assert [event.data for event in stored_events(ingress.settings) if event.id == ident] == [b"hello"]


def test_pipelined_requests_are_answered_in_order(ingress: IngressProcess) -> None:
    requests = [head(*POST, f"ce-id: {n}", "Content-Length: 5") + b"hello" for n in range(50)]
    requests[20] = head("PUT /shop/orders HTTP/1.1", "Host: x", "Content-Length: 5") + b"hello"
    responses = b""
    with socket.create_connection(("127.0.0.1", ingress.settings.port), timeout=60) as connection:
        connection.sendall(b"".join(requests))
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            responses += chunk
    codes = re.findall(rb"HTTP/1\.1 (\d+)", responses)
    assert codes == [b"405" if n == 20 else b"202" for n in range(50)]


def test_old_clients_are_served(ingress: IngressProcess) -> None:
    request = head("POST /shop/orders HTTP/1.0", *POST[1:], "ce-id: 1", "Content-Length: 5") + b"hello"
    assert raw(ingress, request, patience=60).startswith(b"HTTP/1.1 202")


def test_random_bytes_never_make_it_fail(ingress: IngressProcess) -> None:
    chance = random.Random(20)
    valid = head(*POST, "ce-id: 1", "Content-Type: application/json", "Content-Length: 2") + b"{}"
    for _ in range(60):
        broken = bytearray(valid)
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with socket.create_connection(("127.0.0.1", ingress.settings.port), timeout=60) as connection:
            try:
                connection.sendall(bytes(broken))
                connection.shutdown(socket.SHUT_WR)  # which fails where the server has ended the connection before
                connection.settimeout(0.3)
                answer = connection.recv(4096)
            except OSError:
                continue
        assert not answer.startswith(b"HTTP/1.1 5"), (bytes(broken), answer)
