"""An event's HTTP headers made straight from its stored ones, as bytes: no event is built only to be taken apart again.

The same headers as `penstock.events.http.to_binary` gives for an event that it puts in binary mode; a test holds both
against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.contract import headers
from penstock.events import http
from penstock.events import kafka_binding as kafka
from penstock.events.broker_attributes import TTL
from penstock.events.event import REQUIRED, MalformedEvent
from penstock.events.memo import Memo

Fields = Mapping[str, bytes | None]

_REQUIRED = tuple(kafka.PREFIX + name for name in REQUIRED)
_TTL = kafka.PREFIX + TTL
_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")
_VISIBLE = bytes([9, *range(0x20, 0x7F)])
_UNENCODED = http.UNENCODED.encode()
OF_THE_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})
"""Headers that belong to the connection, not to an event they were stored with."""


class _Opening(NamedTuple):
    """How the line of a stored header begins."""

    text: bytes
    plain: bytes
    """Values of these bytes alone, which is most of them, are sent as they are; others are looked at."""


def event_lines(fields: Fields, with_ttl: bool) -> bytes:
    """Header lines of the event in binary mode, and what travels along with it. Raises MalformedEvent or ValueError."""
    for name in _REQUIRED:
        if not fields.get(name):
            raise MalformedEvent(f"attribute {name[len(kafka.PREFIX) :]!r} is missing")
    parts: list[bytes] = []
    for name, raw in fields.items():
        if raw is None or (opening := _OPENINGS[name]) is None or (name == _TTL and not with_ttl):
            continue
        if raw.translate(None, opening.plain):
            parts.append(_line(name, opening.text, raw))
        else:
            parts += (opening.text, raw, b"\r\n")
    return b"".join(parts)


def _line(name: str, opening: bytes, value: bytes) -> bytes:
    """The line of a value that may have to be encoded. Raises ValueError where it cannot be sent."""
    if name.startswith(kafka.PREFIX):
        value = http.encoded(value.decode()).encode()
    elif name == kafka.CONTENT_TYPE:
        value.decode()
    return _checked(b"%b%b\r\n" % (opening, value), 1)


def _opening(name: str) -> _Opening | None:
    """None where the header is not for the subscriber. Raises ValueError for a name that HTTP does not allow."""
    if name.startswith(kafka.PREFIX):
        return _opening_of(f"{http.PREFIX}{name[len(kafka.PREFIX) :]}", _UNENCODED)
    if name == kafka.CONTENT_TYPE:
        return _opening_of(http.CONTENT_TYPE, _VISIBLE)
    if name.startswith(headers.PASSED):
        passed = name[len(headers.PASSED) :]
        return None if passed.lower() in OF_THE_CONNECTION else _opening_of(passed, _VISIBLE)
    return None


def _opening_of(name: str, plain: bytes) -> _Opening:
    text = f"{name}: ".encode()
    _checked(text + b"\r\n", 1)
    return _Opening(text, plain)


_OPENINGS = Memo(_opening)


def holds_event(fields: Fields) -> bool:
    """Whether the data claim to be an event themselves, so that binary mode would pass them off as the event sent."""
    kind = fields.get(kafka.CONTENT_TYPE)
    return kind is not None and _CLAIMING[kind]


_CLAIMING = Memo[bytes, bool](lambda kind: http.claims_event(kind.decode("utf-8", "replace")))


def header_lines(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Header lines of any headers. Raises ValueError for one that can not be sent."""
    lines = [f"{name}: {value}\r\n" for name, value in pairs]
    return _checked("".join(lines).encode("utf-8", "surrogateescape"), len(lines))


def _checked(lines: bytes, count: int) -> bytes:
    """The lines, if they are as many as there should be: nothing in a name or value ends one early."""
    if lines.count(b"\n") != count or _LINES.fullmatch(lines) is None:
        raise ValueError("a header has characters that HTTP does not allow")
    return lines
