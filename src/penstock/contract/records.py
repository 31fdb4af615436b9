"""An event as a record of `penstock.events`: the CloudEvents Kafka binding, the target, what travels along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from penstock.events.memo import Memo

# Headers of records in `penstock.events` and `penstock.matched`, beside those of the CloudEvents Kafka binding. An
# event is stored as the CloudEvents Kafka binding's binary mode asks: `ce_<attribute>` headers, `content-type` for
# `datacontenttype`, the data as value (null where there is none). The headers here are penstock's own.

TARGET = "penstock_target"
"""uid of the Broker or Channel that accepted the event."""

PASSED = "penstock_http_"
"""Prefix of HTTP headers that travel along with the event, such as `penstock_http_x-request-id`."""

TRACE = "penstock_traceparent"
"""W3C trace context of the span that received the event; `penstock_tracestate` likewise."""

TRACE_STATE = "penstock_tracestate"

MARKER = "penstock_marker"
"""On a marker record, which is no event: `<generation>:<sequence>:<unix milliseconds>`. Markers have no target."""

ORIGIN = "penstock_origin"
"""In `penstock.matched`: the record's offset in the same partition of `penstock.events`, in decimal."""

ROUTES = "penstock_routes"
"""In `penstock.matched`: the uids of the routes that match, joined by commas. Empty on markers."""

GENERATION = "penstock_generation"
"""In `penstock.matched`: the router's generation that wrote the record, in decimal."""

FENCE = "penstock_fence"
"""On a record of `penstock.matched` that is neither an event nor a marker: from here on no record of a lower generation
counts in this partition. The number of the generation that counted before, in decimal; 0 before the first one."""

PARTS_LEFT = "penstock_parts_left"
"""In `penstock.matched`: how many records follow with further routes of the same event, where they do not fit into one.
Without it all of the event's routes have been named: only then has the event been routed."""

DATA_UNREAD = "penstock_data_unread"
"""In `penstock.matched`: a filter asks for the event's data, which is no JSON. Without routes such a record is
there only to be counted, and has no value."""

_PASSED = ("x-request-id",)
_PASSED_PREFIXES = ("knative-", "x-b3-")


class EventRecord(NamedTuple):
    """What is written."""

    headers: kafka.Headers
    value: bytes | None
    key: bytes | None
    """What decides about the partition; None where any will do."""


def record_of(event: CloudEvent, travelling: kafka.Headers) -> EventRecord:
    """The record of an event; `travelling` are the headers of its request that go with it."""
    headers = kafka.to_headers(event)
    headers.extend(travelling)
    return EventRecord(headers, event.data, kafka.partition_key(event))


def travelling(uid: bytes, request: Mapping[str, str], span: str, state: str | None) -> kafka.Headers:
    """The target, the trace context, and the headers of the request that are passed on to subscribers."""
    headers: kafka.Headers = [(TARGET, uid), (TRACE, span.encode())]
    if state is not None:
        headers.append((TRACE_STATE, state.encode()))
    for name, value in request.items():
        passed = _PASSED_AS[name]
        if passed is not None:
            headers.append((passed, value.encode("latin-1")))
    return headers


def _passed_as(name: str) -> str | None:
    return PASSED + name if name in _PASSED or name.startswith(_PASSED_PREFIXES) else None


_PASSED_AS = Memo(_passed_as)


# Records that cannot be read: damaged, written by somebody else, or by a version that this one does not understand.

T = TypeVar("T")


class Unreadable(ValueError):
    """The record is not what its topic holds. Whoever reads it passes it over and says so; nothing else is harmed."""


def read_json(value: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The value as JSON of the decoder's shape. Raises Unreadable.

    Decoders are made when their module is imported: msgspec learns a type when it is first asked for it, and where two
    threads ask at once, the process ends with a segmentation fault.
    """
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
