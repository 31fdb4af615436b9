"""The CloudEvents Kafka binding, binary mode: attributes as `ce_` headers, data as the record's value."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events.event import REQUIRED, CloudEvent, MalformedEvent
from penstock.events.memo import Memo

PREFIX = "ce_"
CONTENT_TYPE = "content-type"

Headers = list[tuple[str, bytes]]


def to_headers(event: CloudEvent) -> Headers:
    """The record's headers; the value is the event's data."""
    return [(_HEADERS[name], value.encode()) for name, value in event.attributes.items()]


def from_headers(headers: Iterable[tuple[str, bytes | None]], value: bytes | None) -> CloudEvent:
    """The event of a record; headers of others are passed over. Raises MalformedEvent for an invalid event."""
    attributes: dict[str, str] = {}
    try:
        for name, raw in headers:
            if name.startswith(PREFIX):
                attributes[name[len(PREFIX) :]] = (raw or b"").decode()
            elif name == CONTENT_TYPE:
                attributes["datacontenttype"] = (raw or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedEvent(f"header {name!r} is not UTF-8") from error
    for required in REQUIRED:
        if not attributes.get(required):
            raise MalformedEvent(f"attribute {required!r} is missing")
    return CloudEvent(attributes, value)


def partition_key(event: CloudEvent) -> bytes | None:
    """What the record is partitioned by: the `partitionkey` extension, where present."""
    key = event.attributes.get("partitionkey")
    return key.encode() if key else None


_HEADERS = Memo[str, str](lambda name: CONTENT_TYPE if name == "datacontenttype" else PREFIX + name)
