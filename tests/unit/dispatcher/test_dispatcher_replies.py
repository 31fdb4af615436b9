"""A reply on its way on: what is too large for the log is refused before anybody tries to write it."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest
from secrets_double import no_credentials

from penstock.contract.routes import Endpoint, Route
from penstock.dispatcher.cursors import stage_payload
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.delivery.attempt import AttemptResult, AttemptSender
from penstock.dispatcher.delivery.replies import ReplyWriter
from penstock.dispatcher.http.client import SubscriberClient
from penstock.dispatcher.http.connection import SubscriberResponse
from penstock.dispatcher.http.outcome import Outcome
from penstock.dispatcher.matched.record import Matched
from penstock.observability.trace import configure
from penstock.settings import Settings

LIMIT = 5 * 1024 * 1024
SUBSCRIPTION = Route(
    "s", "Subscription", "team", "s", "c", subscriber=Endpoint("http://s/"), reply=Endpoint("http://r/")
)
BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "x-request-id": "7"}
STORED = [
    (f"ce_{name}", value) for name, value in (("specversion", b"1.0"), ("id", b"0"), ("source", b"/"), ("type", b"t"))
]


class Answering:
    """A subscriber that answers every request alike."""

    def __init__(self, response: SubscriberResponse) -> None:
        self._response = response

    async def post(self, *_: Any, **__: Any) -> SubscriberResponse:
        return self._response


async def attempt(headers: dict[str, str], body: bytes) -> AttemptResult:
    client = cast("SubscriberClient", Answering(SubscriberResponse(200, headers, body, False)))
    sender = AttemptSender(
        client, cast("ReplyWriter", None), configure("test"), 1.0, LIMIT, credentials=no_credentials()
    )
    record = Matched(0, 0, 0, 0, routes=("s",), raw=STORED, value=b"")
    return await sender.attempt(SUBSCRIPTION, Stage.SUBSCRIBER, record, None)


async def test_the_largest_reply_fits_into_a_record() -> None:
    result = await attempt(BINARY, b"\xff" * LIMIT)
    assert result.verdict.replied
    assert result.payload is not None
    encoded = stage_payload.encode(result.payload)
    assert len(encoded) < Settings(max_event_bytes=LIMIT).max_record_bytes
    assert stage_payload.decode(encoded) == result.payload


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (BINARY, b"x" * (LIMIT + 1)),
        (
            {"content-type": "application/cloudevents+json"},
            json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "long": "x" * 600_000}).encode(),
        ),
    ],
    ids=["data", "attributes"],
)
async def test_a_reply_that_does_not_fit_fails_its_delivery(headers: dict[str, str], body: bytes) -> None:
    result = await attempt(headers, body)
    assert (result.verdict.outcome, result.payload, result.code) == (Outcome.RETRYABLE, None, 503)
    assert "larger than an event may be" in result.verdict.reason


async def test_a_reply_without_somewhere_to_go_is_not_measured() -> None:
    silent = msgspec.structs.replace(SUBSCRIPTION, reply=None)
    client = cast("SubscriberClient", Answering(SubscriberResponse(200, BINARY, b"x" * (LIMIT + 1), False)))
    sender = AttemptSender(
        client, cast("ReplyWriter", None), configure("test"), 1.0, LIMIT, credentials=no_credentials()
    )
    record = Matched(0, 0, 0, 0, routes=("s",), raw=STORED, value=b"")
    result = await sender.attempt(silent, Stage.SUBSCRIBER, record, None)
    assert (result.verdict.outcome, result.discarded) == (Outcome.DELIVERED, True)
