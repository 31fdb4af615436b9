"""The HTTP binding, case by case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.events import http
from penstock.events.event import CloudEvent, MalformedEvent

MINIMAL = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/here", "ce-type": "made.up"}
STRUCTURED = {"content-type": "application/cloudevents+json"}


def structured(**members: Any) -> CloudEvent:
    given = {"specversion": "1.0", "id": "1", "source": "/here", "type": "made.up", **members}
    return http.from_http(STRUCTURED, json.dumps(given).encode())


def test_binary_mode() -> None:
    event = http.from_http({**MINIMAL, "ce-ext": "x", "content-type": "text/plain", "host": "h"}, b"hello")
    assert event.attributes == {
        "specversion": "1.0",
        "id": "1",
        "source": "/here",
        "type": "made.up",
        "ext": "x",
        "datacontenttype": "text/plain",
    }
    assert event.data == b"hello"


@pytest.mark.parametrize(
    "kind", ["application/cloudevents+json", "application/cloudevents-batch+json", "APPLICATION/CloudEventsX"]
)
def test_data_that_is_an_event_itself_is_never_taken_for_the_event_that_carries_it(kind: str) -> None:
    event = structured(datacontenttype=kind, data_base64="e30=")
    headers, body = http.to_binary(event)
    assert http.from_http(dict(headers), body) == event


def test_an_empty_body_is_no_data() -> None:
    assert http.from_http(MINIMAL, b"").data is None


@pytest.mark.parametrize(
    ("header", "value", "attribute"),
    [
        ("ce-specversion", "9000.1", "specversion"),
        ("ce-specversion", "", "specversion"),
        ("ce-id", "", "id"),
        ("ce-source", "", "source"),
        ("ce-type", "", "type"),
        ("ce-subject", "", "subject"),
        ("ce-time", "yesterday", "time"),
        ("ce-time", "2026-02-30T12:00:00Z", "time"),
        ("ce-dataschema", "/relative", "dataschema"),
        ("content-type", "nonsense", "datacontenttype"),
        ("content-type", "text/plain; charset", "datacontenttype"),
        ("ce-subject", "50%", "subject"),
        ("ce-subject", "%C3", "subject"),
        ("ce-subject", "a%0d%0aInjected: yes", "subject"),
        ("ce-my-ext", "x", "my-ext"),
        ("ce-data", "x", "data"),
    ],
)
def test_malformed_headers_say_which_attribute(header: str, value: str, attribute: str) -> None:
    with pytest.raises(MalformedEvent, match=attribute):
        http.from_http({**MINIMAL, header: value}, b"")


@pytest.mark.parametrize("missing", list(MINIMAL))
def test_missing_attributes_are_named(missing: str) -> None:
    headers = {name: value for name, value in MINIMAL.items() if name != missing}
    with pytest.raises(MalformedEvent, match=f"'{missing[3:]}' is missing"):
        http.from_http(headers, b"")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ('"quoted \\" and \\\\"', 'quoted " and \\'),
        ("plain+sign", "plain+sign"),
        ("%2520", "%20"),
        ("Grüße", "Grüße"),
    ],
)
def test_header_values_are_decoded_once(sent: str, meant: str) -> None:
    assert http.from_http({**MINIMAL, "ce-subject": sent}, b"").attributes["subject"] == meant


def test_header_values_are_encoded_as_the_binding_asks() -> None:
    headers, _ = http.to_binary(CloudEvent({"subject": 'Euro € "50 %" ~!'}, None))
    assert headers == [("ce-subject", "Euro%20%E2%82%AC%20%2250%20%25%22%20~!")]


def test_a_header_may_not_be_given_twice() -> None:
    with pytest.raises(MalformedEvent, match="ce-id"):
        http.fold_headers([(b"ce-id", b"1"), (b"ce-id", b"2")])
    assert http.fold_headers([(b"accept", b"a"), (b"accept", b"b")]) == {"accept": "a, b"}


def test_a_header_must_be_utf8() -> None:
    with pytest.raises(MalformedEvent, match="ce-id"):
        http.fold_headers([(b"ce-id", b"\xff")])


def test_content_type_and_attribute_must_agree() -> None:
    agreeing = {**MINIMAL, "content-type": "text/plain", "ce-datacontenttype": "text/plain"}
    assert http.from_http(agreeing, b"x").attributes["datacontenttype"] == "text/plain"
    with pytest.raises(MalformedEvent, match="datacontenttype"):
        http.from_http({**agreeing, "ce-datacontenttype": "text/html"}, b"x")


@pytest.mark.parametrize(
    ("headers", "mode"),
    [
        (MINIMAL, "binary"),
        ({"content-type": "application/cloudevents+json; charset=UTF-8"}, "structured"),
        ({"content-type": "Application/CloudEvents+JSON"}, "structured"),
        ({"content-type": "application/cloudevents"}, "structured"),
        ({"content-type": "application/cloudevents-batch+json"}, "batch"),
        ({"content-type": "application/cloudevents+avro"}, None),
        ({"content-type": "application/cloudevents+json; charset=utf-16"}, None),
        ({"content-type": "application/json"}, None),
        ({"ce-ext": "x"}, None),
        ({}, None),
    ],
)
def test_content_modes(headers: dict[str, str], mode: str | None) -> None:
    assert http.content_mode(headers) == mode


@pytest.mark.parametrize(
    ("headers", "claims"),
    [
        (MINIMAL, True),
        ({"ce-id": "1"}, True),
        ({"content-type": "application/cloudevents+avro"}, True),
        ({"content-type": "application/json"}, False),
        ({}, False),
    ],
)
def test_claiming_to_be_an_event(headers: dict[str, str], claims: bool) -> None:
    assert http.is_event(headers) is claims


def test_unknown_formats_are_told_from_malformed_events() -> None:
    with pytest.raises(http.UnsupportedFormat, match="avro"):
        http.from_http({"content-type": "application/cloudevents+avro"}, b"")
    with pytest.raises(MalformedEvent, match="no event") as malformed:
        http.from_http({"content-type": "application/json"}, b"{}")
    assert not isinstance(malformed.value, http.UnsupportedFormat)


def test_json_data_is_kept_byte_for_byte() -> None:
    body = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data": { "b":1.00,\n "a" : [1e2,"\\u00e9"] } }'
    event = http.from_http(STRUCTURED, body)
    assert event.data == b'{ "b":1.00,\n "a" : [1e2,"\\u00e9"] }'
    assert event.attributes["datacontenttype"] == "application/json"


@pytest.mark.parametrize(
    ("members", "data"),
    [
        ({"data": "text", "datacontenttype": "text/plain"}, b"text"),
        ({"data": "text", "datacontenttype": "application/json"}, b'"text"'),
        ({"data": {"a": 1}, "datacontenttype": "text/plain"}, b'{"a": 1}'),
        ({"data": None}, b"null"),
        ({"data": None, "datacontenttype": "text/plain"}, None),
        ({"data_base64": "AAH/", "datacontenttype": "image/png"}, b"\x00\x01\xff"),
        ({"data_base64": ""}, b""),
        ({"data_base64": None, "data": 1}, b"1"),
        ({"specversion": "0.3", "data": "AAH/", "datacontentencoding": "base64"}, b"AAH/"),
        ({"specversion": "1.0", "data": "AAH/", "datacontentencoding": "base64"}, b'"AAH/"'),
        ({}, None),
    ],
)
def test_structured_data(members: dict[str, Any], data: bytes | None) -> None:
    assert structured(**members).data == data


@pytest.mark.parametrize(
    ("given", "canonical"),
    [(5, "5"), (-5, "-5"), (True, "true"), (False, "false"), ("x", "x"), ("", ""), (1.5, "1.5")],
)
def test_extension_values_become_strings(given: Any, canonical: str) -> None:
    assert structured(ext=given).attributes["ext"] == canonical


def test_null_attributes_are_absent_and_names_lower_case() -> None:
    event = structured(subject=None, MyExt="x")
    assert "subject" not in event.attributes
    assert event.attributes["myext"] == "x"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"id": 5}, "id"),
        ({"ext": {"a": 1}}, "ext"),
        ({"ext": []}, "ext"),
        ({"bad_name": "x"}, "bad_name"),
        ({"ext": "x", "Ext": "y"}, "ext"),
        ({"subject": "a\nb"}, r"subject.*U\+000A"),
        ({"data": "x", "data_base64": "AAA="}, "exclude"),
        ({"data_base64": "?"}, "data_base64"),
        ({"data_base64": 5}, "data_base64"),
        ({"specversion": "0.3", "data_base64": "AAA="}, "data_base64"),
        ({"specversion": "0.3", "data": "?", "datacontentencoding": "base64"}, "base64"),
        ({"specversion": "0.3", "datacontentencoding": "gzip"}, "datacontentencoding"),
        ({"specversion": "0.3", "schemaurl": ""}, "schemaurl"),
    ],
)
def test_malformed_structured_events(members: dict[str, Any], reason: str) -> None:
    with pytest.raises(MalformedEvent, match=reason):
        structured(**members)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"a":1}x', b'{"data":"\xff"}', b"[" * 200_000])
def test_bodies_that_are_no_object(body: bytes) -> None:
    with pytest.raises(MalformedEvent, match=r"^the body is not "):
        http.from_http(STRUCTURED, body)


def test_a_batch_names_the_event_that_is_wrong() -> None:
    headers = {"content-type": http.BATCH_JSON}
    good = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    assert [event.id for event in http.batch_from_http(headers, json.dumps([good, {**good, "id": "2"}]).encode())] == [
        "1",
        "2",
    ]
    assert http.batch_from_http(headers, b"[]") == []
    with pytest.raises(MalformedEvent, match=r"event 1 of the batch: attribute 'type' is empty"):
        http.batch_from_http(headers, json.dumps([good, {**good, "type": ""}]).encode())


@pytest.mark.parametrize(
    "time",
    ["2026-01-31T12:00:00Z", "2026-01-31t12:00:00.123456789z", "1985-04-12T23:20:50.52+05:30", "2016-12-31T23:59:60Z"],
)
def test_times(time: str) -> None:
    assert http.from_http({**MINIMAL, "ce-time": time}, b"").attributes["time"] == time


def test_data_that_is_not_encoded_as_it_says_is_sent_on_as_what_a_reader_takes() -> None:
    headers = {
        "ce-specversion": "0.3",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-datacontentencoding": "base64",
    }
    event = http.from_http(headers, b"no base64")
    given, body = http.to_structured(event)
    assert http.from_http(dict(given), body).data == b"bm8gYmFzZTY0"
