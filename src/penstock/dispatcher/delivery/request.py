"""The request of one attempt: headers and body.

Only subscribers get `Prefer: reply`; replies, dead letter sinks and the reply of a Subscription without subscriber do
not. Every attempt is a new span in the trace of the event.

A dead letter says what went wrong in Knative's own attributes (`knativeerrordest`, `knativeerrorcode`,
`knativeerrordata`) and in those of the delivery design (`deadlettersubscriberuri`, `deadletterreason`,
`deadletterretry`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from functools import lru_cache

from penstock.contract import records
from penstock.contract.routes import Route
from penstock.dispatcher.cursors.cursor import Stage
from penstock.dispatcher.cursors.stage_payload import Failure, StagePayload
from penstock.dispatcher.delivery.decision import expects_reply
from penstock.dispatcher.matched_record import OF_THE_CONNECTION, Fields, Matched, header_lines, holds_event
from penstock.events import http
from penstock.events.attributes import TTL
from penstock.events.event import CloudEvent
from penstock.observability.trace import TRACEPARENT, TRACESTATE

ERROR_DATA_LIMIT = 1024
"""Characters of `knativeerrordata`, counted after encoding."""

_RAW_LIMIT = ERROR_DATA_LIMIT // 4 * 3
NO_RESPONSE = 500
"""`knativeerrorcode` where there was no response."""


def error_data(body: bytes) -> str:
    """`knativeerrordata` of a response's body: base64, cut to 1024 characters. Empty for an empty body."""
    return base64.b64encode(body[:_RAW_LIMIT]).decode()


def no_response_data(reason: str) -> str:
    """`knativeerrordata` where there was no response: the error of the attempt."""
    return error_data(f"dispatch error: {reason}".encode())


def dead_letter(event: CloudEvent, failure: Failure) -> CloudEvent:
    """The original event with attributes that describe its failure."""
    return event.with_attributes(
        knativeerrordest=failure.dest,
        knativeerrorcode=str(failure.code),
        knativeerrordata=failure.data,
        deadlettersubscriberuri=failure.subscriber,
        deadletterreason=failure.reason,
        deadletterretry=str(failure.attempts),
    )


HttpHeaders = list[tuple[str, str]]

PASSED_NAME = "x-request-id"
PASSED_PREFIXES = ("knative-", "x-b3-")
"""Headers of a response that are sent with the reply in it; all others are dropped."""

_VISIBLE = re.compile(r"[\t\x20-\x7e]*")


def request(
    route: Route, stage: Stage, record: Matched, payload: StagePayload | None, *, traceparent: str
) -> tuple[bytes, bytes]:
    """Header lines and body of an attempt. Raises ValueError where the event cannot be sent.

    What most attempts send, the event as it was stored, is rendered once for all routes.
    """
    tracestate = record.header(records.TRACE_STATE)
    if stage is not Stage.SUBSCRIBER or route.delivery.format == "json" or holds_event(record.fields):
        event, passed = content(stage, record, payload)
        composed, body = compose(route, stage, event, passed, traceparent=traceparent, tracestate=tracestate)
        return header_lines(composed), body
    lines = record.lines(with_ttl=route.role != "Trigger") + _route_lines(route.namespace, expects_reply(route, stage))
    if tracestate:
        lines += header_lines([(TRACESTATE, tracestate)])
    return b"%btraceparent: %b\r\n" % (lines, traceparent.encode()), record.value or b""


@lru_cache(maxsize=4096)
def _route_lines(namespace: str, reply_wanted: bool) -> bytes:
    return header_lines([("kn-namespace", namespace), *([("prefer", "reply")] if reply_wanted else [])])


def content(stage: Stage, record: Matched, payload: StagePayload | None) -> tuple[CloudEvent, HttpHeaders]:
    """The event that a stage sends, and the HTTP headers that go with it."""
    if stage is Stage.REPLY and payload is not None:
        return payload.reply, payload.passed
    event = record.event
    if stage is Stage.DEAD_LETTER and payload is not None and payload.failure is not None:
        event = dead_letter(event, payload.failure)
    return event, stored_headers(record.fields)


def compose(
    route: Route, stage: Stage, event: CloudEvent, passed: HttpHeaders, *, traceparent: str, tracestate: str | None
) -> tuple[HttpHeaders, bytes]:
    """Headers and body of a request with this event."""
    if route.role == "Trigger" and stage is Stage.SUBSCRIBER and TTL in event.attributes:
        event = event.with_attributes(**{TTL: None})
    composed, body = http.to_structured(event) if route.delivery.format == "json" else http.to_binary(event)
    composed.append(("kn-namespace", route.namespace))
    if expects_reply(route, stage):
        composed.append(("prefer", "reply"))
    composed.append((TRACEPARENT, traceparent))
    if tracestate:
        composed.append((TRACESTATE, tracestate))
    if passed:
        composed.extend(passed)
    return composed, body


def stored_headers(fields: Fields) -> HttpHeaders:
    """The HTTP headers that were stored with the event, to be sent with it."""
    prefix = records.PASSED
    return [
        (name[len(prefix) :], stored.decode("utf-8", "surrogateescape"))
        for name, stored in fields.items()
        if stored is not None and name.startswith(prefix) and name[len(prefix) :].lower() not in OF_THE_CONNECTION
    ]


def passes(name: str) -> bool:
    """Whether a header of a response is sent with the reply in it. `Retry-After` is for the dispatcher only."""
    return name == PASSED_NAME or name.startswith(PASSED_PREFIXES)


def passed_from_response(response: Iterable[tuple[str, str]]) -> HttpHeaders:
    """The headers of a response that are sent with the reply in it."""
    return [(name, value) for name, value in response if passes(name) and _VISIBLE.fullmatch(value)]
