"""Answers of every kind on one connection, with the transport played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import socket
import ssl
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.attempts import FailureCause
from penstock.destinations import Destinations
from penstock.dispatcher.http.address import Origin
from penstock.dispatcher.http.connection import (
    HEAD_BYTES,
    IGNORED_BODY_BYTES,
    ClosedWithoutResponse,
    NoResponse,
    ResetWithoutResponse,
    SubscriberConnection,
    SubscriberResponse,
    cause_of,
)
from penstock.dispatcher.http.pool import Pool
from penstock.events.event import MalformedEvent
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings

EVENT_LIMIT = 200_000
EVENT = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-type: t\r\nce-source: /s\r\n"


def tls_problem(reason: str) -> ssl.SSLError:
    problem = ssl.SSLError(1, f"[SSL: {reason}] in words that may change")
    problem.reason = reason
    return problem


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.unsent = 0
        self.aborted = False

    def writelines(self, list_of_data: object) -> None:
        self.sent += b"".join(cast("tuple[bytes, ...]", list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


class Peer:
    """A connection with its wire."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.idle: list[SubscriberConnection] = []
        self.connection = SubscriberConnection(self.idle.append, EVENT_LIMIT)
        self.connection.connection_made(self.wire)

    def ask(self, *, reply_counts: bool = True, seconds: float = 60) -> asyncio.Future[SubscriberResponse]:
        deadline = asyncio.get_running_loop().time() + seconds
        return self.connection.send(b"POST / HTTP/1.1\r\n\r\n", b"body", deadline, seconds, reply_counts)

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)

    @property
    def reusable(self) -> bool:
        return self.idle == [self.connection] and not self.connection.closed and not self.wire.aborted


def on_a_loop(test: Callable[[Peer], Awaitable[None]]) -> None:
    async def play() -> None:
        await test(Peer())

    asyncio.run(play())


async def test_a_request_is_sent_whole_and_answered() -> None:
    peer = Peer()
    answer = peer.ask()
    assert peer.wire.sent == b"POST / HTTP/1.1\r\n\r\nbody"
    peer.say(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nok")
    got = await answer
    assert (got.status, got.body, got.is_cut, got.headers["x-a"]) == (200, b"ok", False, "1")
    assert peer.reusable


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nlink: a\r\n\r\nHTTP/1.1 204 X\r\n\r\n", 204, b""),
    ],
)
async def test_the_connection_is_used_again_after(said: bytes, status: int, body: bytes) -> None:
    for step in (1, 7, len(said)):
        peer = Peer()
        for _ in range(2):
            peer.idle.clear()
            answer = peer.ask()
            peer.say(*(said[begin : begin + step] for begin in range(0, len(said), step)))
            assert ((await answer).status, (await answer).body) == (status, body)
            assert peer.reusable


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nforged",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more",
    ],
)
async def test_the_connection_is_not_used_again_after(said: bytes) -> None:
    peer = Peer()
    answer = peer.ask()
    peer.say(said)
    assert ((await answer).status, (await answer).body) == (200, b"ok")
    assert not peer.reusable


async def test_an_answer_before_the_whole_request_was_sent_ends_the_connection() -> None:
    peer = Peer()
    answer = peer.ask()
    peer.wire.unsent = 1
    peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
    assert (await answer).status == 413
    assert not peer.reusable


async def test_what_comes_unasked_ends_the_connection() -> None:
    peer = Peer()
    answer = peer.ask()
    peer.say(b"HTTP/1.1 204 X\r\n\r\n")
    await answer
    peer.say(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
    assert not peer.reusable


async def test_a_body_without_length_ends_with_the_connection() -> None:
    peer = Peer()
    answer = peer.ask()
    peer.say(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it")
    peer.connection.connection_lost(None)
    assert (await answer).body == b"all of it"
    assert not peer.reusable


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", b"HTTP/1.1 100 X\r\n\r\n"]
)
async def test_a_connection_lost_in_the_middle_is_no_answer(said: bytes) -> None:
    peer = Peer()
    answer = peer.ask()
    peer.say(said)
    peer.connection.connection_lost(None)
    with pytest.raises(NoResponse, match="closed before the response was complete") as problem:
        await answer
    assert problem.value.cause is FailureCause.CONNECTION_CLOSED


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_connection_whose_other_end_is_closed_ends_before_the_rest_of_a_request_is_sent(is_idle: bool) -> None:
    peer = Peer()
    answer = None if is_idle else peer.ask()
    peer.wire.unsent = 0 if is_idle else 1
    peer.connection.eof_received()
    assert (peer.connection.closed, peer.wire.aborted) == (True, True)
    if answer is not None:
        with pytest.raises(ClosedWithoutResponse, match="closed"):
            await answer


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (None, ClosedWithoutResponse),
        (ConnectionResetError("reset"), ResetWithoutResponse),
        (BrokenPipeError("broken"), ResetWithoutResponse),
        (tls_problem("SSLV3_ALERT_BAD_CERTIFICATE"), ClosedWithoutResponse),
    ],
)
async def test_a_connection_that_is_reset_is_told_from_one_that_ends(
    problem: Exception | None, kind: type[ClosedWithoutResponse]
) -> None:
    peer = Peer()
    answer = peer.ask()
    peer.connection.connection_lost(problem)
    with pytest.raises(ClosedWithoutResponse) as closed:
        await answer
    assert type(closed.value) is kind


async def test_a_connection_that_was_lost_at_once_is_no_answer() -> None:
    peer = Peer()
    peer.connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(NoResponse, match="closed"):
        await peer.ask()
    assert peer.wire.sent == b""


async def test_no_more_of_a_body_is_kept_than_it_is_worth() -> None:
    for head, limit in ((b"", IGNORED_BODY_BYTES), (EVENT, EVENT_LIMIT)):
        peer = Peer()
        answer = peer.ask()
        peer.say(b"HTTP/1.1 200 OK\r\n%bcontent-length: 99999999\r\n\r\n" % head)
        while not answer.done():
            peer.say(b"x" * 10_000)
        got = await answer
        assert got.is_cut
        assert limit < len(got.body) <= limit + 10_000
        assert not peer.reusable


async def test_an_event_counts_only_where_a_reply_does() -> None:
    said = b"HTTP/1.1 200 OK\r\n%bcontent-length: 0\r\n\r\n" % EVENT
    for status, counts, seen in ((b"200", True, True), (b"202", True, False), (b"200", False, False)):
        peer = Peer()
        answer = peer.ask(reply_counts=counts)
        peer.say(said.replace(b"200", status))
        assert ("ce-id" in (await answer).headers) is seen


async def test_a_head_without_end_is_no_answer() -> None:
    peer = Peer()
    answer = peer.ask()
    peer.say(b"HTTP/1.1 200 OK\r\n", *(b"x-%d: %b\r\n" % (n, b"y" * 1000) for n in range(HEAD_BYTES // 1000 + 2)))
    with pytest.raises(NoResponse, match="head of the response") as problem:
        await answer
    assert problem.value.cause is FailureCause.NOT_HTTP


async def test_the_headers_of_a_failure_are_kept() -> None:
    for status, kept in ((b"429", "7"), (b"500", "7"), (b"302", "7"), (b"202", None)):
        peer = Peer()
        answer = peer.ask()
        peer.say(b"HTTP/1.1 %b X\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n" % status)
        assert (await answer).headers.get("retry-after") == kept


def event_response(body: bytes, encoding: str) -> SubscriberResponse:
    return SubscriberResponse(200, {"ce-id": "1", "content-encoding": encoding}, body, EVENT_LIMIT)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", " GZIP"])
@pytest.mark.parametrize("size", [0, 1, EVENT_LIMIT])
def test_the_body_of_an_event_is_decompressed(encoding: str, size: int) -> None:
    data = b"x" * size
    assert event_response(gzip.compress(data), encoding).event_body() == data


def test_a_body_of_several_gzip_members_is_decompressed_as_one() -> None:
    parts = gzip.compress(b"all ") + gzip.compress(b"") + gzip.compress(b"of it")
    assert event_response(parts, "gzip").event_body() == b"all of it"


@pytest.mark.parametrize("encoding", ["", "identity", "Identity"])
def test_a_body_without_an_encoding_stays_as_it_is(encoding: str) -> None:
    assert event_response(b"\x1f\x8b", encoding).event_body() == b"\x1f\x8b"
    assert event_response(b"", "gzip").event_body() == b"", "there is nothing to decompress"


WHOLE = gzip.compress(b"hello" * 100)


@pytest.mark.parametrize(
    ("body", "encoding", "complaint"),
    [
        (WHOLE, "br", "Content-Encoding is 'br'"),
        (WHOLE, "gzip, gzip", "Content-Encoding is 'gzip, gzip'"),
        (b"hello", "gzip", "cannot be decompressed"),
        (WHOLE[:-9], "gzip", "cannot be decompressed"),
        (WHOLE[:-4] + b"abcd", "gzip", "cannot be decompressed"),
        (WHOLE[:10] + b"\xff" * 30, "gzip", "cannot be decompressed"),
        (WHOLE + b"more", "gzip", "cannot be decompressed"),
        (gzip.compress(b"x" * (EVENT_LIMIT + 1)), "gzip", "larger than an event may be"),
        (b"x" * (EVENT_LIMIT + 1), "", "larger than an event may be"),
        (b"x" * (EVENT_LIMIT + 1), "gzip", "larger than an event may be"),
    ],
    # Not the bytes: they hold the time of day, and every process that runs tests has to name them alike.
    ids=["other", "two", "none", "cut", "sum", "damaged", "more", "large", "large-plain", "large-claimed"],
)
def test_a_body_that_cannot_be_read_is_no_event(body: bytes, encoding: str, complaint: str) -> None:
    with pytest.raises(MalformedEvent, match=complaint):
        event_response(body, encoding).event_body()


@pytest.mark.parametrize(
    "body", [gzip.compress(b" " * 256 * 1024 * 1024), gzip.compress(b"") * 10_000], ids=["bomb", "members"]
)
def test_little_memory_and_time_are_spent_on_a_body_that_is_made_to_waste_them(body: bytes) -> None:
    tracemalloc.start()
    began = time.process_time()
    with contextlib.suppress(MalformedEvent):
        event_response(body[: EVENT_LIMIT + 1], "gzip").event_body()
    spent, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * EVENT_LIMIT
    assert spent < 10


def test_the_body_of_a_failure_is_decompressed_as_far_as_possible() -> None:
    def shown(body: bytes, encoding: str = "gzip") -> bytes:
        return SubscriberResponse(500, {"content-encoding": encoding}, body, IGNORED_BODY_BYTES).error_body()

    assert shown(gzip.compress(b"busy")) == b"busy"
    long = random.Random(1).randbytes(2000)
    assert long.startswith(shown(gzip.compress(long)[:1500])[:500])
    assert len(shown(gzip.compress(b"x" * 10_000_000))) == IGNORED_BODY_BYTES
    assert shown(b"no gzip") == b"no gzip"
    assert shown(b"busy", "br") == b"busy"


async def test_an_answer_that_does_not_come_in_time_is_none() -> None:
    peer = Peer()
    with pytest.raises(NoResponse, match=r"no response within 0\.001 s") as problem:
        await peer.ask(seconds=0.001)
    assert problem.value.cause is FailureCause.TIMEOUT
    assert peer.wire.aborted


@given(st.lists(st.binary(max_size=300), max_size=5), st.booleans())
def test_whatever_comes_is_an_answer_or_none(pieces: list[bytes], proper: bool) -> None:
    async def play(peer: Peer) -> None:
        answer = peer.ask()
        peer.say(*([b"HTTP/1.1 200 OK\r\n"] if proper else []), *pieces)
        peer.connection.connection_lost(None)
        try:
            assert (await answer).status >= 100
        except NoResponse:
            assert peer.wire.aborted

    on_a_loop(play)


@pytest.mark.parametrize(
    ("problem", "cause"),
    [
        (tls_problem("TLSV13_ALERT_CERTIFICATE_REQUIRED"), FailureCause.CLIENT_CERTIFICATE_REFUSED),
        (tls_problem("SSLV3_ALERT_HANDSHAKE_FAILURE"), FailureCause.CLIENT_CERTIFICATE_REFUSED),
        (tls_problem("TLSV1_ALERT_UNKNOWN_CA"), FailureCause.CLIENT_CERTIFICATE_REFUSED),
        (tls_problem("TLSV1_ALERT_PROTOCOL_VERSION"), FailureCause.CERTIFICATE_REFUSED),
        (ssl.SSLCertVerificationError(1, "self-signed"), FailureCause.CERTIFICATE_REFUSED),
        (ConnectionRefusedError(111, "Connection refused"), FailureCause.CONNECTION_REFUSED),
        (TimeoutError(110, "Connection timed out"), FailureCause.CONNECTION_TIMEOUT),
        (ConnectionResetError(104, "Connection reset by peer"), FailureCause.CONNECTION_CLOSED),
        (None, FailureCause.CONNECTION_CLOSED),
        (OSError(113, "No route to refused-orders"), FailureCause.DELIVERY_FAILED),
    ],
    ids=str,
)
def test_the_cause_is_that_of_the_error_and_not_of_its_words(problem: Exception | None, cause: FailureCause) -> None:
    assert cause_of(problem) is cause


@pytest.mark.parametrize("host", ["closed-beta.shop", "tls-gateway.shop", "refused-orders", "certificate.shop"])
async def test_the_words_of_a_host_name_do_not_change_the_cause(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    def not_known(_: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("penstock.dispatcher.http.dns.system_lookup", not_known)
    pool = Pool(EVENT_LIMIT, Destinations(Settings()), TaskScope())
    with pytest.raises(NoResponse, match=host) as problem:
        await pool.connect(Origin(host, 80, None, None), 60)
    assert problem.value.cause is FailureCause.NAME_NOT_FOUND
    pool.close()


async def test_a_sweep_of_idle_connections_that_fails_ends_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.dispatcher.http.pool.SWEEP_SECONDS", 0.001)
    scope = TaskScope()
    pool = Pool(EVENT_LIMIT, Destinations(Settings()), scope)
    peer = Peer()
    pool._keep(Origin("127.0.0.1", 80, None, None), peer.connection)
    peer.connection.idle_since = "long ago"  # type: ignore[assignment]  # what cannot be compared
    with pytest.raises(TypeError):
        await asyncio.wait_for(scope.failed(), 60)
    pool.close()
