"""An event as a record of `penstock.events`: the CloudEvents Kafka binding, the target, what travels along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.contract import headers as stored
from penstock.events import kafka_binding as kafka
from penstock.events.event import CloudEvent
from penstock.events.memo import Memo

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
    headers: kafka.Headers = [(stored.TARGET, uid), (stored.TRACE, span.encode())]
    if state is not None:
        headers.append((stored.TRACE_STATE, state.encode()))
    for name, value in request.items():
        passed = _PASSED_AS[name]
        if passed is not None:
            headers.append((passed, value.encode("latin-1")))
    return headers


def _passed_as(name: str) -> str | None:
    return stored.PASSED + name if name in _PASSED or name.startswith(_PASSED_PREFIXES) else None


_PASSED_AS = Memo(_passed_as)
