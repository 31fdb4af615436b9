"""What is sent: headers and body of one attempt.

Subscribers are told that a reply is welcome (`Prefer: reply`); replies, dead letter sinks and the reply of a
Subscription without subscriber are not. Every attempt is a new span in the trace of the event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.contract import headers
from penstock.contract.routes import Route
from penstock.dispatcher.cursor import Stage
from penstock.dispatcher.decision import expects_reply
from penstock.dispatcher.matched import RawHeaders
from penstock.events import http
from penstock.events.broker_attributes import TTL
from penstock.events.event import CloudEvent

HttpHeaders = list[tuple[str, str]]

PASSED_NAME = "x-request-id"
PASSED_PREFIXES = ("knative-", "x-b3-")
"""Headers of an answer that travel along with the reply in it; everything else stays behind."""

_VISIBLE = re.compile(r"[\t\x20-\x7e]*")


def compose(
    route: Route, stage: Stage, event: CloudEvent, passed: HttpHeaders, *, traceparent: str, tracestate: str | None
) -> tuple[HttpHeaders, bytes]:
    """Headers and body of a request with this event."""
    if route.kind == "Trigger" and stage is not Stage.REPLY and TTL in event.attributes:
        event = event.with_attributes(**{TTL: None})
    composed, body = http.to_structured(event) if route.delivery.format == "json" else http.to_binary(event)
    composed.append(("kn-namespace", route.namespace))
    if expects_reply(route, stage):
        composed.append(("prefer", "reply"))
    composed.append(("traceparent", traceparent))
    if tracestate:
        composed.append(("tracestate", tracestate))
    if passed:
        composed.extend(passed)
    return composed, body


def passed_along(raw: RawHeaders) -> HttpHeaders:
    """The HTTP headers that were stored with the event to go with it."""
    prefix = headers.PASSED
    return [
        (name[len(prefix) :], content.decode("latin-1"))
        for name, content in raw
        if name.startswith(prefix) and content is not None
    ]


def passes(name: str) -> bool:
    """Whether a header of an answer goes along with the reply in it. `Retry-After` spoke to us alone."""
    return name == PASSED_NAME or name.startswith(PASSED_PREFIXES)


def passed_from_answer(answer: Iterable[tuple[str, str]]) -> HttpHeaders:
    """The headers of an answer that go along with the reply in it."""
    return [(name, value) for name, value in answer if passes(name) and _VISIBLE.fullmatch(value)]
