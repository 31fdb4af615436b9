"""Whatever an event is, it comes back from each binding as it was."""

from __future__ import annotations

import base64

from event_strategies import events
from hypothesis import given

from penstock.events import http
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent


@given(events)
def test_binary_mode_keeps_everything(event: CloudEvent) -> None:
    headers, body = http.to_binary(event)
    assert all(value.isascii() and value.isprintable() for _, value in headers)
    assert http.from_http(dict(headers), body) == event


@given(events)
def test_kafka_keeps_everything(event: CloudEvent) -> None:
    assert kafka.from_headers(kafka.to_headers(event), event.data) == event


@given(events)
def test_structured_mode_keeps_everything(event: CloudEvent) -> None:
    headers, body = http.to_structured(event)
    again = http.from_http(dict(headers), body)
    if again.attributes.get("datacontentencoding") != event.attributes.get("datacontentencoding"):
        # Version 0.3 has no other way to carry bytes in JSON than to encode them and say so.
        assert event.specversion == "0.3"
        again = CloudEvent(
            {name: value for name, value in again.attributes.items() if name != "datacontentencoding"},
            base64.b64decode(again.data or b""),
        )
    assert again == event


@given(events)
def test_what_is_sent_claims_to_be_an_event(event: CloudEvent) -> None:
    assert http.is_event(dict(http.to_binary(event)[0]))
    assert http.is_event(dict(http.to_structured(event)[0]))


@given(events)
def test_a_batch_of_one_is_that_event(event: CloudEvent) -> None:
    _, body = http.to_structured(event)
    [again] = http.batch_from_http({"content-type": http.BATCH_JSON}, b"[" + body + b"]")
    assert again == http.from_http({"content-type": http.STRUCTURED_JSON}, body)
