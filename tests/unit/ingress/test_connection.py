"""How a connection behaves: order of responses, limits of size and time, its end. No sockets, and time is a number."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingress.connection import (
    BODY_SECONDS,
    HEAD_BYTES,
    HEAD_SECONDS,
    KEEP_ALIVE_SECONDS,
    REFUSAL_SECONDS,
    Connection,
    OverloadedConnection,
)
from penstock.ingress.server import LOOK_SECONDS, MAX_OVERLOADED, IngressServer
from penstock.runtime.tasks import TaskScope
from penstock.settings import Settings
from tests.unit.ingress.ingress_requests import EVENT, Client, Wire, head, responses


def posted(ident: str, body: bytes = b"", **more: str) -> bytes:
    """A whole request."""
    return head({**EVENT, "ce-id": ident, "Content-Length": str(len(body)), **more}) + body


def statuses(wire: Wire) -> list[int]:
    return [response.status for response in responses(wire.written)]


def ids(client: Client) -> list[str]:
    return [dict(record.headers)["ce_id"].decode() for record in client.log.records]


@given(st.lists(st.integers(min_value=0, max_value=400), max_size=6))
def test_a_request_may_come_in_any_pieces(cuts: list[int]) -> None:
    client = Client()
    connection, wire = client.connect()
    whole = posted("1", b"hello", **{"Content-Type": "text/plain"})
    places = sorted({0, *(min(cut, len(whole)) for cut in cuts), len(whole)})
    for start, end in pairwise(places):
        connection.data_received(whole[start:end])
    assert statuses(wire) == [202]
    assert [record.value for record in client.log.records] == [b"hello"]


def test_every_answer_has_a_date_and_the_connection_stays() -> None:
    client = Client()
    connection, wire = client.connect()
    for ident in "123":
        connection.data_received(posted(ident))
    given_answers = responses(wire.written)
    assert [response.status for response in given_answers] == [202] * 3
    assert all(response.headers["date"].endswith("GMT") for response in given_answers)
    assert not wire.is_closed


async def test_pipelined_requests_are_answered_in_order_and_one_at_a_time() -> None:
    client = Client()
    client.log.holds = True
    connection, wire = client.connect()
    connection.data_received(posted("1") + posted("2", b"x") + head(method="PUT") + posted("3"))
    assert (ids(client), wire.written, wire.reads) == (["1"], b"", False)
    client.log.confirm()
    await asyncio.sleep(0)
    assert (ids(client), statuses(wire)) == (["1", "2"], [202])
    client.log.confirm()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (ids(client), statuses(wire)) == (["1", "2", "3"], [202, 202, 405])
    client.log.confirm()
    assert (statuses(wire), wire.reads, connection.is_idle) == ([202, 202, 405, 202], True, True)


async def test_a_thousand_pipelined_refusals_need_no_deep_stack() -> None:
    connection, wire = Client().connect()
    connection.data_received(head({"Content-Length": "0"}, path="/nowhere") * 2000)
    for _ in range(2000):
        await asyncio.sleep(0)
    assert statuses(wire) == [404] * 2000


def test_garbage_after_a_request_is_told_after_its_answer() -> None:
    client = Client()
    client.log.holds = True
    connection, wire = client.connect()
    connection.data_received(posted("1") + b"\x00garbage\r\n\r\n")
    assert wire.written == b""
    client.log.confirm()
    assert (statuses(wire), wire.is_closed) == ([202, 400], True)


def test_a_broken_body_ends_the_connection() -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(head({**EVENT, "Transfer-Encoding": "chunked"}) + b"zz\r\n")
    assert (statuses(wire), wire.is_closed, client.log.records) == ([400], True, [])


def test_headers_that_never_end_are_cut_off() -> None:
    connection, wire = Client().connect()
    connection.data_received(head(EVENT)[:-2])
    for _ in range(HEAD_BYTES // 1000 + 1):
        connection.data_received(b"x-more: " + b"x" * 1000 + b"\r\n")
        if wire.is_closed:
            break
    assert (statuses(wire), wire.is_closed) == ([431], True)


def test_a_large_request_before_does_not_count_as_headers() -> None:
    connection, wire = Client().connect()
    second = posted("2")
    connection.data_received(posted("1", bytes(100_000)) + second[:20])
    connection.data_received(second[20:])
    assert statuses(wire) == [202, 202]


def test_a_refused_body_is_dropped_and_the_connection_goes_on() -> None:
    client = Client(max_event_bytes=2048)
    connection, wire = client.connect()
    connection.data_received(head({**EVENT, "Content-Length": "5000"}))
    assert statuses(wire) == [413]
    connection.data_received(bytes(5000) + posted("after"))
    assert (statuses(wire), ids(client)) == ([413, 202], ["after"])


@pytest.mark.parametrize(("declared", "expected"), [("5", [100, 202]), ("99999999", [413])])
def test_the_body_is_asked_for_only_where_it_is_wanted(declared: str, expected: list[int]) -> None:
    connection, wire = Client().connect()
    connection.data_received(head({**EVENT, "Content-Length": declared, "Expect": "100-continue"}))
    if expected[0] == 100:
        connection.data_received(b"hello")
    assert statuses(wire) == expected


def test_headers_have_a_time_limit() -> None:
    client = Client()
    connection, wire = client.connect()
    for byte in b"POST /shop/orders HTTP/1.1\r\nx: y":
        connection.data_received(bytes([byte]))
        client.look(HEAD_SECONDS / 40)
    assert wire.written == b""
    client.look(HEAD_SECONDS)
    assert (statuses(wire), wire.is_closed) == ([408], True)


def test_the_time_limit_of_headers_begins_anew_with_each_request() -> None:
    client = Client()
    connection, wire = client.connect()
    for ident in ("1", "2", "3"):
        request = posted(ident)
        connection.data_received(request[:10])
        client.look(HEAD_SECONDS * 0.9)
        connection.data_received(request[10:])
    assert (statuses(wire), wire.is_closed) == ([202] * 3, False)


def test_a_body_has_a_time_limit() -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(head({**EVENT, "Content-Length": "5"}) + b"he")
    client.look(BODY_SECONDS)
    assert wire.written == b""
    client.look(1)
    assert (statuses(wire), wire.is_closed, client.log.records) == ([408], True, [])


def test_a_refused_body_that_does_not_come_ends_the_connection() -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(head({**EVENT, "Content-Length": "5"}, path="/nowhere"))
    client.look(BODY_SECONDS + 1)
    assert (statuses(wire), wire.is_closed) == ([404], True)


def test_storing_takes_as_long_as_it_takes() -> None:
    client = Client()
    client.log.holds = True
    connection, wire = client.connect()
    connection.data_received(posted("1"))
    client.look(KEEP_ALIVE_SECONDS * 2)
    assert not wire.is_closed
    client.log.confirm()
    assert statuses(wire) == [202]


def test_idle_connections_end() -> None:
    client = Client()
    _, silent = client.connect()
    connection, used = client.connect()
    client.look(KEEP_ALIVE_SECONDS - 1)
    connection.data_received(posted("1"))
    client.look(2)
    assert (silent.is_closed, used.is_closed) == (True, False)
    client.look(KEEP_ALIVE_SECONDS)
    assert used.is_closed


def test_a_client_that_does_not_read_its_last_answer_is_left() -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(posted("1", Connection="close"))
    assert (wire.is_closed, wire.is_aborted) == (True, False)
    client.look(KEEP_ALIVE_SECONDS + 1)
    assert wire.is_aborted


@pytest.mark.parametrize(
    "request_bytes",
    [posted("1", Connection="close"), posted("1").replace(b"HTTP/1.1", b"HTTP/1.0")],
    ids=["asked for", "old"],
)
def test_connections_end_where_the_client_expects_it(request_bytes: bytes) -> None:
    connection, wire = Client().connect()
    connection.data_received(request_bytes)
    [response] = responses(wire.written)
    assert (response.status, response.headers["connection"], wire.is_closed) == (202, "close", True)


def test_an_event_that_was_cut_off_is_not_stored() -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(head({**EVENT, "Content-Length": "5"}) + b"he")
    assert not connection.eof_received()
    wire.close()
    connection.connection_lost(None)
    assert (client.log.records, client.connections) == ([], set())


def test_a_client_that_sends_no_more_gets_its_answer() -> None:
    client = Client()
    client.log.holds = True
    connection, wire = client.connect()
    connection.data_received(posted("1"))
    assert connection.eof_received()
    client.log.confirm()
    assert (statuses(wire), wire.is_closed) == ([202], True)


def test_an_answer_to_a_client_that_is_gone_is_dropped() -> None:
    client = Client()
    client.log.holds = True
    connection, wire = client.connect()
    connection.data_received(posted("1"))
    wire.close()
    connection.connection_lost(None)
    client.log.confirm()
    assert wire.written == b""


def test_an_offer_to_upgrade_is_passed_over_with_nothing_lost() -> None:
    client = Client()
    connection, wire = client.connect()
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"}
    first = posted("1", b"hello", **offer)
    connection.data_received(first[:-3])
    connection.data_received(first[-3:] + posted("2"))
    assert (statuses(wire), ids(client)) == ([202, 202], ["1", "2"])
    assert client.log.records[0].value == b"hello"


@pytest.mark.parametrize("options", ["close, Upgrade", "Upgrade,Close"])
def test_an_offer_to_upgrade_with_close_ends_the_connection(options: str) -> None:
    client = Client()
    connection, wire = client.connect()
    connection.data_received(posted("1", b"hello", Connection=options, Upgrade="h2c"))
    assert (statuses(wire), ids(client), wire.is_closed) == ([202], ["1"], True)


@pytest.mark.parametrize("path", ["/shop/orders", "/nowhere"])
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((), 400),
        (("Host: a", "Host: a"), 400),
        (("Host: a", "host: b"), 400),
        (("Host: a", "Transfer-Encoding: gzip, chunked"), 501),
        (("Host: a", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked"), 501),
    ],
)
def test_heads_that_http_forbids_are_refused_whatever_they_are_for(
    path: str, lines: tuple[str, ...], status: int
) -> None:
    client = Client()
    connection, wire = client.connect()
    event = [f"{name}: {value}" for name, value in EVENT.items()]
    length = [] if status == 501 else ["Content-Length: 0"]
    said = "\r\n".join([f"POST {path} HTTP/1.1", *lines, *event, *length, "", ""])
    connection.data_received(said.encode() + (b"0\r\n\r\n" if status == 501 else b""))
    assert (statuses(wire), wire.is_closed, client.log.records) == ([status], True, [])


def test_http_of_before_needs_no_host() -> None:
    client = Client()
    connection, wire = client.connect()
    event = [f"{name}: {value}" for name, value in EVENT.items()]
    connection.data_received("\r\n".join(["POST /shop/orders HTTP/1.0", *event, "Content-Length: 0", "", ""]).encode())
    assert statuses(wire) == [202]


def test_connect_is_no_offer() -> None:
    connection, wire = Client().connect()
    connection.data_received(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\nwhatever")
    assert statuses(wire) == [405]


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    connection, wire = Client().connect()
    connection.pause_writing()
    assert not wire.reads
    connection.resume_writing()
    assert wire.reads


MIB = 1 << 20


def test_what_arrives_in_pieces_is_counted_until_it_is_stored_or_gone() -> None:
    client = Client()
    whole = posted("1", b"x" * 1000)
    cut_off, wire = client.connect()
    cut_off.data_received(whole[:-400])
    assert client.held_bytes == 600
    connection, _ = client.connect()
    connection.data_received(whole[:-1])
    assert client.held_bytes == 600 + 999
    connection.data_received(whole[-1:])
    assert client.held_bytes == 600
    wire.close()
    cut_off.connection_lost(None)
    assert client.held_bytes == 0


def test_a_body_for_which_there_is_no_memory_is_refused_and_dropped_and_the_connection_goes_on() -> None:
    client = Client()
    client.max_held_bytes = 3 * MIB // 2
    pieces = head({**EVENT, "Content-Length": str(MIB)}) + b"x" * (MIB - 1)
    first, accepted = client.connect()
    first.data_received(pieces)
    second, refused = client.connect()
    second.data_received(pieces)
    [response] = responses(refused.written)
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert client.held_bytes == MIB - 1
    first.data_received(b"x")
    assert (statuses(accepted), client.held_bytes) == ([202], 0)
    second.data_received(b"x" + posted("after"))
    assert (statuses(refused), refused.is_closed) == ([503, 202], False)


def test_pipelined_requests_for_which_there_is_no_memory_end_the_connection() -> None:
    client = Client()
    client.log.holds, client.max_held_bytes = True, 500
    connection, wire = client.connect()
    connection.data_received(posted("1") + posted("2", b"x" * 1000) + posted("3"))
    assert (wire.written, client.held_bytes) == (b"", 0)
    client.log.confirm()
    assert (statuses(wire), wire.is_closed) == ([202, 503], True)
    assert ids(client) == ["1"]


def test_headers_for_which_there_is_no_memory_end_the_connection() -> None:
    client = Client()
    client.max_held_bytes = 500
    connection, wire = client.connect()
    connection.data_received(head(EVENT)[:-2])
    connection.data_received(b"x: " + b"x" * 600)
    assert (statuses(wire), wire.is_closed) == ([503], True)
    wire.close()
    connection.connection_lost(None)
    assert client.held_bytes == 0


def test_a_connection_beyond_the_limit_is_told_so_when_it_sends_and_ended() -> None:
    client = Client()
    refusal, wire = OverloadedConnection(client.app, client), Wire()
    refusal.connection_made(wire)
    assert wire.written == b""
    refusal.data_received(posted("1", b"hello"))
    refusal.data_received(b"more")
    [response] = responses(wire.written)
    assert (response.status, response.headers["connection"], response.headers["retry-after"]) == (503, "close", "1")
    assert (wire.is_finished, client.log.records) == (True, [])
    refusal.look(client.now + REFUSAL_SECONDS + 1)
    assert wire.is_aborted
    refusal.connection_lost(None)
    assert client.overloaded == set()


async def test_a_server_serves_as_many_connections_as_it_may() -> None:
    client = Client()
    server = IngressServer(client.app, Settings(max_connections=2, drain_seconds=0), TaskScope())
    made = []
    for _ in range(MAX_OVERLOADED + 3):
        made.append((server._connection(), Wire()))
        made[-1][0].connection_made(made[-1][1])
        if made[-1][1].is_aborted:
            made[-1][0].connection_lost(None)
    assert [type(connection) for connection, _ in made[:3]] == [Connection, Connection, OverloadedConnection]
    assert [wire.is_aborted for _, wire in made].count(True) == 1, "the oldest of too many overloaded"
    made[0][0].connection_lost(None)
    assert isinstance(server._connection(), Connection), "one has gone, and the next is served"
    await server.end()


async def test_a_look_at_the_connections_that_fails_ends_the_ingress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.ingress.server.LOOK_SECONDS", LOOK_SECONDS / 1000)
    scope = TaskScope()
    server = IngressServer(Client().app, Settings(), scope)
    server.connections.add(object())  # type: ignore[arg-type]  # what cannot be looked at
    with pytest.raises(AttributeError):
        await asyncio.wait_for(scope.failed(), 60)
    server.connections.clear()
    await server.end()


def test_a_failure_of_the_application_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(client.app, "take", fail)
    connection, wire = client.connect()
    connection.data_received(posted("1"))
    assert (statuses(wire), wire.is_closed) == ([500], True)
