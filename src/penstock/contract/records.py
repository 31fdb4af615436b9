"""Records of `penstock.events` and `penstock.matched`: their headers, an event as a record, unreadable records.

An event is stored in the binary mode of the CloudEvents Kafka binding: `ce_<attribute>` headers, `content-type` for
`datacontenttype`, the data as value (null where there is none). The headers defined here are penstock's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from penstock.events.memo import Memo

TARGET = "penstock_target"
"""uid of the Broker or Channel that accepted the event."""

PASSED = "penstock_http_"
"""Prefix of HTTP headers that travel along with the event, such as `penstock_http_x-request-id`."""

TRACE = "penstock_traceparent"
"""W3C trace context of the span that received the event; `penstock_tracestate` likewise."""

TRACE_STATE = "penstock_tracestate"

MARKER = "penstock_marker"
"""On a marker record, which is not an event: `<generation>:<sequence>:<unix milliseconds>`. Markers have no target."""

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
"""In `penstock.matched`: a filter needs the event's data, which is not JSON. Without routes such a record is
there only to be counted, and has no value."""

_PASSED = ("x-request-id",)
_PASSED_PREFIXES = ("knative-", "x-b3-")


class EventRecord(NamedTuple):
    """A record to write."""

    headers: kafka.Headers
    value: bytes | None
    key: bytes | None
    """Decides about the partition; None: any partition."""


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


T = TypeVar("T")


class Unreadable(ValueError):
    """A record cannot be decoded: damaged, written by another program or by an incompatible version.

    Readers skip such a record and log it; all other records stay in force.
    """


def read_json(value: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The value as JSON of the decoder's type. Raises Unreadable.

    Create decoders when their module is imported: msgspec inspects a type at its first use, and where two threads do
    that at once, the process ends with a segmentation fault.
    """
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
