"""Headers made from stored headers are those that the event itself would be sent with."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract import records
from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.request import compose, request, stored_headers
from penstock.dispatcher.http.address import address
from penstock.dispatcher.matched_record import Matched, event_lines, header_lines
from penstock.events import http
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent, MalformedEvent

SPAN = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
TRIGGER = Route("t", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/"))
SUBSCRIPTION = Route("s", "Subscription", "team", "s", "c", subscriber=Endpoint("http://s/"))
REPLY_ONLY = Route("s", "Subscription", "team", "s", "c", reply=Endpoint("http://r/"))

EVENT_TYPE = "application/cloudevents+json"

names = st.sampled_from(["subject", "time", "partitionkey", "knativebrokerttl", "a1", "sequence"])
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
events = st.builds(
    lambda required, extra, kind, data: CloudEvent({"specversion": "1.0", **required, **extra, **kind}, data),
    st.fixed_dictionaries({"id": texts, "source": texts, "type": texts}),
    st.dictionaries(names, texts),
    st.sampled_from([{}, *({"datacontenttype": kind} for kind in ("application/json; charset=utf-8", EVENT_TYPE))]),
    st.none() | st.binary(),
)


def stored(event: CloudEvent, *extra: tuple[str, bytes]) -> Matched:
    return Matched(0, 0, 0, 0, routes=(), raw=[*kafka.to_headers(event), *extra], value=event.data)


@given(events, st.sampled_from([TRIGGER, SUBSCRIPTION, REPLY_ONLY]), st.none() | st.just("a=b"))
def test_both_ways_to_make_a_request_agree(event: CloudEvent, route: Route, state: str | None) -> None:
    extra = [(records.PASSED + "x-request-id", b"7\xff"), (records.TARGET, b"b")]
    if state is not None:
        extra.append((records.TRACE_STATE, state.encode()))
    record = stored(event, *extra)
    lines, body = request(route, Stage.SUBSCRIBER, record, None, traceparent=SPAN)
    passed = stored_headers(record.fields)
    composed, same = compose(route, Stage.SUBSCRIBER, event, passed, traceparent=SPAN, tracestate=state)
    assert sorted(lines.split(b"\r\n")) == sorted(header_lines(composed).split(b"\r\n"))
    assert body == same


def test_a_structured_event_is_made_for_its_route_alone() -> None:
    event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"data")
    route = msgspec.structs.replace(TRIGGER, delivery=Delivery(format="json"))
    lines, body = request(route, Stage.SUBSCRIBER, stored(event), None, traceparent=SPAN)
    assert b"content-type: application/cloudevents+json" in lines
    assert msgspec.json.decode(body)["id"] == "1"


def test_data_that_is_an_event_does_not_arrive_in_place_of_the_event_that_carries_it() -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "allowed", "datacontenttype": EVENT_TYPE}
    inner = {"specversion": "1.0", "id": "2", "source": "/s", "type": "forbidden"}
    event = CloudEvent(attributes, msgspec.json.encode(inner))
    lines, body = request(TRIGGER, Stage.SUBSCRIBER, stored(event), None, traceparent=SPAN)
    received = http.from_http(http.fold_headers(_pairs(lines)), body)
    assert received == event


def _pairs(lines: bytes) -> list[tuple[bytes, bytes]]:
    split = [line.partition(b": ") for line in lines.split(b"\r\n") if line]
    return [(name, value) for name, _, value in split]


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_an_event_without_a_required_attribute_is_not_sent(missing: str) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    del attributes[missing]
    with pytest.raises(MalformedEvent, match=missing):
        event_lines({kafka.PREFIX + name: value.encode() for name, value in attributes.items()}, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-type", b"a/b\r\nx-forged: 1"),
        ("content-type", b"\xff"),
        ("ce_a b", b"1"),
        ("ce_a b", b""),
        ("ce_x: y\r\nz", b"1"),
        ("ce_subject", b"\xff"),
        ("penstock_http_x-request-id", b"1\r\n\r\nPOST / HTTP/1.1"),
    ],
)
def test_what_would_break_the_request_is_not_sent(name: str, value: bytes) -> None:
    event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"})
    with pytest.raises(ValueError, match=r"HTTP does not allow|decode"):
        stored(event, (name, value)).lines(with_ttl=False)


@pytest.mark.parametrize("name", ["content-length", "Transfer-Encoding", "host", "connection"])
def test_a_stored_header_never_speaks_for_the_connection(name: str) -> None:
    event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"})
    record = stored(event, (records.PASSED + name, b"1"))
    assert name.lower().encode() not in record.lines(with_ttl=True).lower()
    assert stored_headers(record.fields) == []


@pytest.mark.parametrize(
    ("url", "named", "origin", "opening"),
    [
        ("http://a/", None, ("a", 80, None), b"POST / HTTP/1.1\r\nhost: a\r\n"),
        ("http://a", None, ("a", 80, None), b"POST / HTTP/1.1\r\nhost: a\r\n"),
        ("http://a:81/b?c=d e", None, ("a", 81, None), b"POST /b?c=d%20e HTTP/1.1\r\nhost: a:81\r\n"),
        ("http://[::1]:8080/ä", None, ("::1", 8080, None), b"POST /%C3%A4 HTTP/1.1\r\nhost: [::1]:8080\r\n"),
        ("http://10.0.0.1:99/b", "s.ns", ("10.0.0.1", 99, None), b"POST /b HTTP/1.1\r\nhost: s.ns\r\n"),
        ("https://10.0.0.1:99/", "s.ns:443", ("10.0.0.1", 99, "s.ns"), b"POST / HTTP/1.1\r\nhost: s.ns:443\r\n"),
        ("https://a/%41", None, ("a", 443, "a"), b"POST /%41 HTTP/1.1\r\nhost: a\r\n"),
    ],
)
def test_an_address_says_whom_to_ask_and_how(
    url: str, named: str | None, origin: tuple[str, int, str | None], opening: bytes
) -> None:
    found = address(url, named, None)
    assert found.origin[:3] == origin
    assert found.opening == opening + b"user-agent: penstock\r\naccept-encoding: gzip\r\n"


def test_credentials_in_an_address_are_sent_as_such() -> None:
    assert b"authorization: Basic dTpw\r\n" in address("http://u:p@a/", None, None).opening


@pytest.mark.parametrize("url", ["", "a", "ftp://a/", "http://", "http:///x", "http://a:b/", "http://a:99999/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        address(url, None, None)
