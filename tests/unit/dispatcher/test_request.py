"""What is sent to subscribers, replies and dead letter sinks."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.routes import Delivery, Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import (
    Failure,
    StagePayload,
    decode_payload,
    encode_payload,
    reply_payload,
)
from penstock.dispatcher.delivery.request import (
    ERROR_DATA_LIMIT,
    compose,
    dead_letter,
    error_data,
    no_response_data,
    passed_from_response,
    stored_headers,
)
from penstock.events.event import CloudEvent

SPAN = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
EVENT = CloudEvent(
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "knativebrokerttl": "255", "datacontenttype": "a/b"},
    b"data",
)
TRIGGER = Route("t", "Trigger", "team", "t", "b", subscriber=Endpoint("http://s/"))
SUBSCRIPTION = Route("s", "Subscription", "team", "s", "c", subscriber=Endpoint("http://s/"))
REPLY_ONLY = Route("s", "Subscription", "team", "s", "c", reply=Endpoint("http://r/"))


def headers(route: Route, stage: Stage, event: CloudEvent = EVENT) -> dict[str, str]:
    composed, _ = compose(route, stage, event, [("x-request-id", "7")], traceparent=SPAN, tracestate="a=b")
    return dict(composed)


def test_a_subscriber_sees_the_event_where_it_comes_from_and_that_a_reply_is_welcome() -> None:
    composed, body = compose(TRIGGER, Stage.SUBSCRIBER, EVENT, [], traceparent=SPAN, tracestate=None)
    assert body == b"data"
    assert dict(composed) == {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "content-type": "a/b",
        "kn-namespace": "team",
        "prefer": "reply",
        "traceparent": SPAN,
    }


@pytest.mark.parametrize(
    ("route", "stage", "preferred"),
    [
        (TRIGGER, Stage.SUBSCRIBER, True),
        (SUBSCRIPTION, Stage.SUBSCRIBER, True),
        (SUBSCRIPTION, Stage.REPLY, False),
        (SUBSCRIPTION, Stage.DEAD_LETTER, False),
        (TRIGGER, Stage.DEAD_LETTER, False),
        (REPLY_ONLY, Stage.SUBSCRIBER, False),
    ],
)
def test_only_a_subscriber_is_asked_for_a_reply(route: Route, stage: Stage, preferred: bool) -> None:
    assert ("prefer" in headers(route, stage)) is preferred


def test_subscribers_of_triggers_get_no_ttl_and_dead_letter_sinks_do() -> None:
    assert "ce-knativebrokerttl" not in headers(TRIGGER, Stage.SUBSCRIBER)
    assert headers(TRIGGER, Stage.DEAD_LETTER)["ce-knativebrokerttl"] == "255"
    assert headers(SUBSCRIPTION, Stage.SUBSCRIBER)["ce-knativebrokerttl"] == "255"


@pytest.mark.parametrize("stage", Stage)
def test_trace_and_passed_headers_travel_along(stage: Stage) -> None:
    sent = headers(SUBSCRIPTION, stage)
    assert (sent["traceparent"], sent["tracestate"], sent["x-request-id"]) == (SPAN, "a=b", "7")


def test_format_json_sends_structured() -> None:
    route = msgspec.structs.replace(TRIGGER, delivery=Delivery(format="json"))
    composed, body = compose(route, Stage.SUBSCRIBER, EVENT, [], traceparent=SPAN, tracestate=None)
    assert dict(composed)["content-type"].startswith("application/cloudevents+json")
    assert msgspec.json.decode(body)["id"] == "1"


def test_passed_headers_are_those_that_were_stored() -> None:
    stored = [("ce_id", b"1"), ("penstock_http_x-b3-traceid", b"9"), ("penstock_target", b"b")]
    assert stored_headers(dict(stored)) == [("x-b3-traceid", "9")]


def test_headers_of_an_answer_go_along_with_its_reply() -> None:
    answer = [("x-request-id", "1"), ("knative-x", "2"), ("retry-after", "3"), ("server", "4"), ("x-b3-bad", "a\x00b")]
    assert passed_from_response(answer) == [("x-request-id", "1"), ("knative-x", "2")]


def test_a_dead_letter_tells_its_story() -> None:
    failure = Failure("http://r/", 409, "", "http://s/", "HTTP status 409", 4)
    told = dead_letter(EVENT, failure).attributes
    assert {name: told[name] for name in told if name.startswith(("knativeerror", "deadletter"))} == {
        "knativeerrordest": "http://r/",
        "knativeerrorcode": "409",
        "knativeerrordata": "",
        "deadlettersubscriberuri": "http://s/",
        "deadletterreason": "HTTP status 409",
        "deadletterretry": "4",
    }
    assert headers(TRIGGER, Stage.DEAD_LETTER, dead_letter(EVENT, failure))["ce-knativeerrordata"] == ""


@given(st.binary(max_size=4096))
def test_error_data_is_base64_cut_after_encoding(body: bytes) -> None:
    assert error_data(body) == base64.b64encode(body).decode()[:ERROR_DATA_LIMIT]


def test_without_an_answer_the_data_says_so() -> None:
    assert base64.b64decode(no_response_data("connection refused")) == b"dispatch error: connection refused"


@given(st.dictionaries(st.text(), st.text()), st.none() | st.binary(), st.lists(st.tuples(st.text(), st.text())))
def test_a_reply_survives_the_topic(
    attributes: dict[str, str], data: bytes | None, passed: list[tuple[str, str]]
) -> None:
    payload = reply_payload(CloudEvent(attributes, data), passed)
    again = decode_payload(encode_payload(payload))
    assert (dict(again.reply.attributes), again.reply.data, again.passed) == (attributes, data, passed)


def test_a_failure_survives_the_topic() -> None:
    payload = StagePayload(failure=Failure("http://r/", 409, "", "http://s/", "no", 4))
    assert decode_payload(encode_payload(payload)) == payload
