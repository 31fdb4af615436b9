"""Whatever an event is, it comes back from each binding as it was."""

from __future__ import annotations

import base64

from hypothesis import given

from penstock.events import http
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from tests.unit.events.event_strategies import events


def without_encoding(received: CloudEvent, sent: CloudEvent) -> CloudEvent:
    """Version 0.3 has no other way to carry bytes in JSON than to encode them and say so."""
    if received.attributes.get("datacontentencoding") == sent.attributes.get("datacontentencoding"):
        return received
    assert sent.specversion == "0.3"
    attributes = {name: value for name, value in received.attributes.items() if name != "datacontentencoding"}
    return CloudEvent(attributes, base64.b64decode(received.data or b""))


@given(events)
def test_binary_mode_keeps_everything(event: CloudEvent) -> None:
    headers, body = http.to_binary(event)
    assert all(value.isascii() and value.isprintable() for _, value in headers)
    received = http.from_http(dict(headers), body)
    if http.claims_event(event.attributes.get("datacontenttype", "")):  # it went in structured mode
        received = without_encoding(received, event)
    assert received == event


@given(events)
def test_kafka_keeps_everything(event: CloudEvent) -> None:
    assert kafka.from_headers(kafka.to_headers(event), event.data) == event


@given(events)
def test_structured_mode_keeps_everything(event: CloudEvent) -> None:
    headers, body = http.to_structured(event)
    assert without_encoding(http.from_http(dict(headers), body), event) == event


@given(events)
def test_what_is_sent_claims_to_be_an_event(event: CloudEvent) -> None:
    assert http.is_event(dict(http.to_binary(event)[0]))
    assert http.is_event(dict(http.to_structured(event)[0]))


@given(events)
def test_a_batch_of_one_is_that_event(event: CloudEvent) -> None:
    _, body = http.to_structured(event)
    [again] = http.batch_from_http({"content-type": http.BATCH_JSON}, b"[" + body + b"]")
    assert again == http.from_http({"content-type": http.STRUCTURED_JSON}, body)
