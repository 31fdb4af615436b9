"""A reply on its way on: how it is read, what is too large for the log, and what goes into the Broker with it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, cast

import msgspec
import pytest

from penstock.contract.records import TRACE, TRACE_STATE
from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import decode_payload, encode_payload
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome
from penstock.dispatcher.matched_record import Matched
from penstock.events.attributes import ATTRIBUTES_BYTES
from penstock.events.event import CloudEvent
from penstock.observability.trace import configure
from penstock.settings import Settings
from tests.unit.dispatcher.secrets_double import no_credentials

LIMIT = 5 * 1024 * 1024
SUBSCRIPTION = Route(
    "s", "Subscription", "team", "s", "c", subscriber=Endpoint("http://s/"), reply=Endpoint("http://r/")
)
TRIGGER = Route("s", "Trigger", "team", "s", "b", subscriber=Endpoint("http://s/"))
BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "x-request-id": "7"}
STORED = [
    (f"ce_{name}", value) for name, value in (("specversion", b"1.0"), ("id", b"0"), ("source", b"/"), ("type", b"t"))
]


EVENT_LIMIT = LIMIT * 4 // 3


class Answering:
    """A subscriber that answers every request alike."""

    def __init__(self, response: SubscriberResponse) -> None:
        self._response = response

    async def post(self, *_: Any, **__: Any) -> SubscriberResponse:
        return self._response


async def attempt(
    headers: dict[str, str],
    body: bytes,
    *,
    route: Route = SUBSCRIPTION,
    status: int = 200,
    store: object = None,
    along: dict[str, bytes] | None = None,
) -> AttemptResult:
    client = cast("SubscriberClient", Answering(SubscriberResponse(status, headers, body, EVENT_LIMIT)))
    sender = AttemptSender(
        client, cast("ReplyWriter", store), configure("test"), 1.0, LIMIT, credentials=no_credentials()
    )
    record = Matched(0, 0, 0, 0, routes=("s",), raw=[*STORED, *(along or {}).items()], value=b"")
    return await sender.attempt(route, Stage.SUBSCRIBER, record, None)


async def test_the_largest_reply_fits_into_a_record() -> None:
    result = await attempt(BINARY, b"\xff" * LIMIT)
    assert result.verdict.replied
    assert result.payload is not None
    encoded = encode_payload(result.payload)
    assert len(encoded) < Settings(max_event_bytes=LIMIT).max_record_bytes
    assert decode_payload(encoded) == result.payload


async def test_a_reply_that_does_not_fit_fails_its_delivery() -> None:
    result = await attempt(BINARY, b"x" * (LIMIT + 1))
    assert (result.verdict.outcome, result.payload, result.code) == (Outcome.RETRYABLE, None, 503)
    assert "larger than an event may be" in result.verdict.reason


@pytest.mark.parametrize("route", [SUBSCRIPTION, TRIGGER], ids=["Subscription", "Trigger"])
async def test_a_reply_with_too_many_attributes_is_malformed(route: Route) -> None:
    members = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "long": "x" * ATTRIBUTES_BYTES}
    result = await attempt({"content-type": "application/cloudevents+json"}, json.dumps(members).encode(), route=route)
    assert (result.verdict.outcome, result.payload, result.code) == (Outcome.RETRYABLE, None, 502)
    assert "65536 are allowed" in result.verdict.reason


async def test_a_reply_without_somewhere_to_go_is_not_measured() -> None:
    silent = msgspec.structs.replace(SUBSCRIPTION, reply=None)
    result = await attempt(BINARY, b"x" * (LIMIT + 1), route=silent)
    assert (result.verdict.outcome, result.discarded) == (Outcome.DELIVERED, True)


STRUCTURED = {"content-type": "application/cloudevents+json"}
WHOLE = json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}}).encode()


@pytest.mark.parametrize(
    ("headers", "body", "data"),
    [(BINARY, b"hello", b"hello"), (STRUCTURED, WHOLE, b'{"a": 1}')],
    ids=["binary", "json"],
)
async def test_a_compressed_reply_is_decompressed(headers: dict[str, str], body: bytes, data: bytes) -> None:
    result = await attempt(headers | {"content-encoding": "gzip"}, gzip.compress(body))
    assert result.payload is not None
    assert (result.payload.reply.id, result.payload.reply.data) == ("1", data)


@pytest.mark.parametrize(
    ("encoding", "body", "complaint"),
    [
        ("br", b"hello", "Content-Encoding is 'br'"),
        ("gzip", b"hello", "cannot be decompressed"),
        ("gzip", gzip.compress(b"x" * (EVENT_LIMIT + 1)), "larger than an event may be"),
    ],
    ids=["other", "broken", "large"],
)
async def test_a_reply_that_cannot_be_decompressed_is_malformed(encoding: str, body: bytes, complaint: str) -> None:
    result = await attempt(BINARY | {"content-encoding": encoding}, body)
    assert (result.verdict.outcome, result.payload, result.code) == (Outcome.RETRYABLE, None, 502)
    assert complaint in result.verdict.reason


async def test_a_compressed_error_is_readable_in_the_dead_letter() -> None:
    result = await attempt({"content-encoding": "gzip"}, gzip.compress(b"busy"), status=503)
    assert (result.code, base64.b64decode(result.data)) == (503, b"busy")


class Store:
    """Remembers what it is given to store."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    async def store(self, target: str, reply: CloudEvent, ttl: str | None, passed: Any, **trace: Any) -> None:
        self.given = {"target": target, "id": reply.id, **trace}


async def test_a_reply_to_a_broker_stays_in_the_trace_of_its_event() -> None:
    store = Store()
    parent = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    along = {TRACE: parent.encode(), TRACE_STATE: b"a=b"}
    assert (await attempt(BINARY, b"", route=TRIGGER, store=store, along=along)).stored
    span = store.given.pop("span")
    assert (span[:36], span[52:]) == (parent[:36], parent[52:])
    assert span != parent
    assert store.given == {"target": "b", "id": "1", "tracestate": "a=b"}
