"""What each request is answered, and what is stored."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.events.attributes import ATTRIBUTES_BYTES
from penstock.ingress.request import Request
from penstock.kafka.events import NoRoom, NotStored, RecordTooLarge
from tests.examples import examples
from tests.unit.ingress.ingress_requests import EVENT, Client

BATCH = {"content-type": "application/cloudevents-batch+json"}
MEMBERS = {"specversion": "1.0", "id": "1", "source": "/here", "type": "made.up"}


def test_an_event_to_a_broker_is_stored_with_its_target() -> None:
    client = Client()
    response = client.send(headers={**EVENT, "content-type": "text/plain", "ce-partitionkey": "k"}, body=b"hello")
    assert (response.status, response.body) == (202, b"")
    [record] = client.log.records
    headers = dict(record.headers)
    assert (record.value, record.key) == (b"hello", b"k")
    assert headers["penstock_target"] == b"b-uid"
    assert (headers["ce_id"], headers["content-type"], headers["ce_knativebrokerttl"]) == (b"1", b"text/plain", b"255")
    assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", headers["ce_knativearrivaltime"])
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-00", headers["penstock_traceparent"])


def test_an_event_to_a_channel_gets_no_attributes() -> None:
    client = Client()
    host = {**EVENT, "host": "pipe-kn-channel.shop.svc.cluster.local"}
    assert client.send("/", host).status == 202
    assert client.send("/channels/shop/pipe").status == 202
    for record in client.log.records:
        assert [name for name, _ in record.headers if name.startswith("ce_")] == ["ce_" + name for name in MEMBERS]
        assert record.value is None


def test_what_travels_along() -> None:
    client = Client()
    along = {
        "x-request-id": "r",
        "knative-x": "k",
        "x-b3-traceid": "b",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
    }
    client.send(headers={**EVENT, **along, "authorization": "secret", "x-other": "o"})
    headers = {name: value for name, value in client.log.records[0].headers if not name.startswith("ce_")}
    assert headers == {
        "penstock_target": b"b-uid",
        "penstock_traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "penstock_tracestate": b"a=b",
        "penstock_http_x-request-id": b"r",
        "penstock_http_knative-x": b"k",
        "penstock_http_x-b3-traceid": b"b",
    }


def test_a_batch_is_all_or_nothing() -> None:
    client = Client()
    whole = [{**MEMBERS, "id": str(n)} for n in range(3)]
    assert client.send(headers=BATCH, body=json.dumps(whole).encode()).status == 202
    assert [dict(record.headers)["ce_id"] for record in client.log.records] == [b"0", b"1", b"2"]
    client.log.records.clear()
    response = client.send(headers=BATCH, body=json.dumps([*whole, {**MEMBERS, "id": ""}]).encode())
    assert (response.status, client.log.records) == (400, [])
    assert b"event 3 of the batch" in response.body
    looping = json.dumps([MEMBERS, {**MEMBERS, "knativebrokerttl": 1}]).encode()
    assert (client.send(headers=BATCH, body=looping).status, client.log.records) == (400, [])


def test_an_empty_batch_is_accepted() -> None:
    assert Client().send(headers=BATCH, body=b"[]").status == 202


def test_loops_end_at_brokers_only() -> None:
    client = Client()
    used_up = {**EVENT, "ce-knativebrokerttl": "1"}
    response = client.send(headers=used_up)
    assert (response.status, client.log.records) == (400, [])
    assert b"knativebrokerttl" in response.body
    assert client.send("/channels/shop/pipe", used_up).status == 202


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_not_allowed(method: str) -> None:
    response = Client().send(method=method)
    assert (response.status, response.headers["allow"]) == (405, "POST, OPTIONS")


def test_options_speak_of_webhooks() -> None:
    response = Client().send(method="OPTIONS")
    assert response.status == 200
    assert response.headers["allow"] == "POST, OPTIONS"
    assert response.headers["webhook-allowed-origin"] == response.headers["webhook-allowed-rate"] == "*"


@pytest.mark.parametrize("path", ["/", "/shop", "/shop/other", "/shop/orders/more"])
def test_unknown_targets(path: str) -> None:
    assert Client().send(path).status == 404


def test_malformed_events_are_told_what_is_wrong() -> None:
    response = Client().send(headers={**EVENT, "ce-specversion": "9000.1"})
    assert (response.status, b"specversion" in response.body) == (400, True)
    twice = Client().send(headers=[*EVENT.items(), ("Ce-Id", "2")])
    assert (twice.status, b"given twice" in twice.body) == (400, True)
    assert Client().send(headers={}, body=b"hello").status == 400


def test_unknown_formats() -> None:
    assert Client().send(headers={"content-type": "application/cloudevents+avro"}).status == 415


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_encoded_events_are_refused_before_they_are_read(encoding: str) -> None:
    client = Client()
    response = client.send(headers={**EVENT, "Content-Encoding": encoding}, body=[b"x" * 1024] * 8)
    assert (response.status, response.headers["accept-encoding"], client.log.records) == (415, "identity", [])
    assert response.received < 8
    assert b"Content-Encoding" in response.body


@pytest.mark.parametrize("encoding", ["", "identity", "Identity"])
def test_identity_is_no_encoding(encoding: str) -> None:
    client = Client()
    assert client.send(headers={**EVENT, "content-encoding": encoding}, body=b"hello").status == 202
    assert client.log.records[0].value == b"hello"


def test_large_events_are_refused_before_they_are_read() -> None:
    client = Client(max_event_bytes=2048)
    declared = client.send(body=b"x" * 2049)
    assert (declared.status, declared.received) == (413, 0)
    chunked = client.send(body=[b"x" * 1024] * 8)
    assert (chunked.status, chunked.received) == (413, 3)
    assert client.send(body=[b"x" * 1024, b"x" * 1024]).status == 202
    assert [record.value for record in client.log.records] == [b"x" * 2048]


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f600"])
def test_attributes_are_bounded_in_every_mode(letter: str) -> None:
    def member(size: int) -> dict[str, str]:
        fixed = sum(len(name) + len(value) for name, value in MEMBERS.items()) + len("long")
        count, rest = divmod(size - fixed, len(letter.encode()))
        return {**MEMBERS, "long": letter * count + "y" * rest}

    client, structured = Client(), {"content-type": "application/cloudevents+json"}
    largest, larger = member(ATTRIBUTES_BYTES), member(ATTRIBUTES_BYTES + 1)
    for escaped in (True, False):
        most, more = (json.dumps(one, ensure_ascii=escaped) for one in (largest, larger))
        assert client.send(headers=structured, body=most.encode()).status == 202
        assert client.send(headers=BATCH, body=f"[{most},{most}]".encode()).status == 202
        assert [record.value for record in client.log.records] == [None] * 3
        client.log.records.clear()
        refused = client.send(headers=structured, body=more.encode())
        assert (refused.status, refused.body) == (
            413,
            b"the attributes of the event have 65537 bytes; 65536 are allowed\n",
        )
        refused = client.send(headers=BATCH, body=f"[{most},{more}]".encode())
        assert (refused.status, refused.body[:24]) == (413, b"event 1 of the batch: th")
        assert client.log.records == []
    assert client.send(headers={**EVENT, "ce-long": "x" * ATTRIBUTES_BYTES}).status == 431


def test_large_headers_are_refused() -> None:
    assert Client().send(headers={**EVENT, "x-large": "x" * 65536}).status == 431


def test_pressure_is_answered_with_retry_after() -> None:
    client = Client()
    client.log.room = False
    response = client.send(body=b"x")
    assert (response.status, response.headers["retry-after"], response.received) == (429, "1", 0)


@pytest.mark.parametrize(
    ("failure", "status"), [(NoRoom(), 429), (NotStored("timed out"), 503), (RecordTooLarge("large"), 413)]
)
def test_what_kafka_does_not_take(failure: Exception, status: int) -> None:
    client = Client()
    client.log.failure = failure
    response = client.send()
    assert response.status == status
    assert ("retry-after" in response.headers) == (status != 413)


def test_a_full_disk_is_noticed_and_recovers() -> None:
    client = Client()
    client.disk._min_free = 1 << 80
    client.disk.check()
    response = client.send()
    assert (response.status, response.headers["retry-after"]) == (507, "1")
    client.disk._min_free = 0
    client.disk.check()
    assert client.send().status == 202


def test_probes() -> None:
    client = Client()
    assert {client.send(path, method="GET").status for path in ("/livez", "/readyz", "/healthz")} == {200}
    client.app.targets = None
    assert client.send("/livez", method="GET").status == 200
    assert client.send("/readyz", method="GET").status == 503
    assert client.send().status == 503


def unready(client: Client) -> str:
    """Why the ingress is not ready; empty where it is."""
    response = client.send("/readyz", method="GET")
    assert response.status == (503 if b"not ready" in response.body else 200)
    return response.body.decode().partition("not ready: ")[2].strip()


async def test_readiness_says_why_every_event_would_be_refused() -> None:
    client = Client()
    assert unready(client) == ""
    client.disk.full = True
    assert unready(client) == "the disk is nearly full"
    client.disk.full, client.log.reached = False, False
    await client.kafka.check()
    assert unready(client) == "Kafka takes no events"
    assert client.send("/livez", method="GET").status == 200
    client.log.reached = True
    await client.kafka.check()
    assert unready(client) == ""
    client.app.draining = True
    assert unready(client) == "it is shutting down"


def test_while_draining_connections_are_closed_and_events_still_taken() -> None:
    client = Client()
    client.app.draining = True
    response = client.send()
    assert (response.status, response.headers["connection"]) == (202, "close")
    assert client.send("/readyz", method="GET").status == 503


tokens = st.sampled_from(
    [b"ce-id", b"Ce-Source", b"ce-type", b"ce-specversion", b"content-type", b"ce-x", b"Host", b"1.0"]
)


@examples(1.5)
@given(
    st.lists(st.tuples(tokens | st.binary(max_size=8), tokens | st.binary(max_size=16)), max_size=8),
    st.binary(max_size=40),
    st.booleans(),
)
def test_no_event_makes_the_ingress_fail(headers: list[tuple[bytes, bytes]], body: bytes, with_event: bool) -> None:
    event = [(name.encode(), value.encode()) for name, value in EVENT.items()] if with_event else []
    named = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    client, given = Client(), []
    request = Request(b"POST", b"/shop/orders", event + named, lambda _, answer: given.append(answer.status))
    early = client.app.early_response(request)
    if early is None:
        client.app.take(request, body)
    else:
        client.app.refuse(request, early)
    assert given[0] in (202, 400, 415)
