"""The CloudEvents HTTP binding (1.0.2; 0.3 alike): binary, structured and batched content mode.

`fold_headers` brings headers into the form that the others take: a mapping with names in lower case. What is received
either becomes an event or raises `MalformedEvent` with the attribute and the reason; nothing that a peer sends raises
anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from penstock.events import json_format, media_type
from penstock.events.attributes import (
    ATTRIBUTES_BYTES,
    AttributesTooLarge,
    check_event,
    check_name,
    check_size,
    check_text,
    shown,
)
from penstock.events.event import REQUIRED, CloudEvent, MalformedEvent
from penstock.events.memo import Memo

PREFIX = "ce-"
CONTENT_TYPE = "content-type"
CONTENT_ENCODING = "content-encoding"
HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers between a client and a proxy, which the proxy does not pass on."""
STRUCTURED_JSON = "application/cloudevents+json"
BATCH_JSON = "application/cloudevents-batch+json"

UNENCODED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""What stands for itself in the value of an attribute."""

ContentMode = Literal["binary", "structured", "batch"]

_CLAIM = "application/cloudevents"
_STRUCTURED = (STRUCTURED_JSON, _CLAIM)
_BATCH = (BATCH_JSON, "application/cloudevents-batch")
_REQUIRED_HEADERS = tuple(PREFIX + name for name in REQUIRED)
_REQUIRED_NAMES = tuple(zip(_REQUIRED_HEADERS, REQUIRED, strict=True))
_ENCODED = re.compile(r'[^!#$&-~]|["%]')
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


class UnsupportedFormat(MalformedEvent):
    """A CloudEvents format that is not understood here, such as Avro; to be answered 415."""


def fold_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as a server receives them as a mapping, names in lower case; what must not occur twice must not."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name = _NAMES[raw_name]
        if name in headers or not raw_value.isascii():
            _fold_unusual(headers, name, raw_value)
        else:
            headers[name] = raw_value.decode()
    return headers


def _fold_unusual(headers: dict[str, str], name: str, raw_value: bytes) -> None:
    if name.startswith(PREFIX) or name == CONTENT_TYPE:
        if name in headers:
            raise MalformedEvent(f"header {shown(name)} is given twice")
        try:
            headers[name] = raw_value.decode()
        except UnicodeDecodeError as error:
            raise MalformedEvent(f"header {shown(name)} is not UTF-8") from error
    elif name in headers:
        headers[name] += ", " + raw_value.decode("latin-1")
    else:
        headers[name] = raw_value.decode("latin-1")


def is_event(headers: Mapping[str, str]) -> bool:
    """Whether the message claims to be an event or a batch of them, valid or not."""
    return any(name in headers for name in _REQUIRED_HEADERS) or claims_event(headers.get(CONTENT_TYPE, ""))


def is_encoded(headers: Mapping[str, str]) -> bool:
    """Whether the body has a Content-Encoding, such as gzip: no event can be read from it as it is."""
    encoding = headers.get(CONTENT_ENCODING)
    return encoding is not None and encoding.strip().lower() not in ("", "identity")


def content_mode(headers: Mapping[str, str]) -> ContentMode | None:
    """How the message carries an event; None if it does not, or in a format that is not understood."""
    content_type = headers.get(CONTENT_TYPE, "")
    claim = _CLAIMS[content_type]
    if claim != "nothing":
        return claim
    return "binary" if any(name in headers for name in _REQUIRED_HEADERS) else None


def from_http(headers: Mapping[str, str], body: bytes) -> CloudEvent:
    """The one event of a message in binary or structured mode."""
    mode = content_mode(headers)
    if mode == "binary":
        return _from_binary(headers, body)
    if mode == "structured":
        return json_format.decode(body)
    if mode == "batch":
        raise MalformedEvent("a batch of events where one event is expected")
    raise _no_event(headers)


def batch_from_http(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The events of a message in batched mode, in order."""
    if content_mode(headers) != "batch":
        raise _no_event(headers)
    return json_format.decode_batch(body)


def check_sizes(events: Iterable[CloudEvent], body: bytes) -> None:
    """Refuses events of a message with this body whose attributes are too long; says which one of several."""
    if len(body) <= ATTRIBUTES_BYTES:
        return  # those in it are not longer than it, and those in headers are bounded by who reads them
    for position, event in enumerate(several := list(events)):
        try:
            check_size(event.attributes)
        except AttributesTooLarge as error:
            raise AttributesTooLarge(
                f"event {position} of the batch: {error}" if len(several) > 1 else str(error)
            ) from None


def all_from_http(headers: Mapping[str, str], body: bytes) -> list[CloudEvent]:
    """The events of a message in whatever mode: one, or those of a batch."""
    mode = content_mode(headers)
    if mode == "binary":
        return [_from_binary(headers, body)]
    return batch_from_http(headers, body) if mode == "batch" else [from_http(headers, body)]


def to_binary(event: CloudEvent) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of the event in binary mode, or in structured mode where binary mode would make it another."""
    if claims_event(event.attributes.get("datacontenttype", "")):
        return to_structured(event)
    headers = []
    for name, value in event.attributes.items():
        if name == "datacontenttype":
            headers.append((CONTENT_TYPE, value))
        else:
            headers.append((PREFIX + name, encoded(value)))
    return headers, event.data or b""


def encoded(value: str) -> str:
    """An attribute's value as its header carries it: percent-encoded where it has to be."""
    return value if _ENCODED.search(value) is None else quote(value, safe=UNENCODED)


def to_structured(event: CloudEvent) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of the event in structured mode, in the JSON format."""
    return [(CONTENT_TYPE, STRUCTURED_JSON)], json_format.encode(event)


def _from_binary(headers: Mapping[str, str], body: bytes) -> CloudEvent:
    attributes: dict[str, str] = {}
    for header, name in _REQUIRED_NAMES:
        if header in headers:
            attributes[name] = ""  # keeps these first, whatever the order of the headers
    for header, value in headers.items():
        attribute = _ATTRIBUTES[header]
        if attribute is None:
            continue
        if "%" in value or '"' in value:
            value = _decode(attribute, value)  # noqa: PLW2901  # the value from here on
        check_text(attribute, value)
        attributes[attribute] = value
    content_type = headers.get(CONTENT_TYPE)
    if content_type:
        check_text("datacontenttype", content_type)
        declared = attributes.setdefault("datacontenttype", content_type)
        if declared != content_type:
            raise MalformedEvent("attribute 'datacontenttype' differs from the header Content-Type")
    check_event(attributes)
    return CloudEvent(attributes, body or None)


def _attribute(header: str) -> str | None:
    """The attribute that a header carries; None where it carries none."""
    if not header.startswith(PREFIX):
        return None
    name = header[len(PREFIX) :]
    check_name(name)
    return name


def _decode(name: str, value: str) -> str:
    if '"' in value:
        value = _QUOTED.sub(lambda quoted: _ESCAPE.sub(r"\1", quoted[1]), value)
    if "%" not in value:
        return value
    if _BROKEN_PERCENT.search(value):
        raise MalformedEvent(f"attribute {name!r} has a broken percent-encoding: {shown(value)}")
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeError as error:
        raise MalformedEvent(f"attribute {name!r} is not UTF-8 once decoded: {shown(value)}") from error


def _claim_of(content_type: str) -> Literal["structured", "batch", "nothing"] | None:
    """The mode that a content type claims; None where it claims one that is not understood."""
    if not claims_event(content_type):
        return "nothing"
    parsed = media_type.parse(content_type)
    essence = parsed.essence if parsed is not None and parsed.is_unicode else ""
    if essence in _STRUCTURED:
        return "structured"
    return "batch" if essence in _BATCH else None


def claims_event(content_type: str) -> bool:
    """Whether receivers of this Content-Type read the body as an event, whatever the other headers say."""
    return content_type[: len(_CLAIM)].lower() == _CLAIM or content_type.lstrip().lower().startswith(_CLAIM)


def _no_event(headers: Mapping[str, str]) -> MalformedEvent:
    content_type = headers.get(CONTENT_TYPE, "")
    if claims_event(content_type):
        return UnsupportedFormat(f"the event format {shown(content_type)} is not understood; JSON in UTF-8 is")
    return MalformedEvent("no event: neither the header ce-specversion nor a CloudEvents content type is there")


_NAMES = Memo[bytes, str](lambda raw: raw.decode("latin-1").lower())
_ATTRIBUTES = Memo(_attribute)
_CLAIMS = Memo(_claim_of)
