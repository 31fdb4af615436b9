"""A record of `penstock.matched`: an event, the routes it is for, and its offset in `penstock.events`.

A record that cannot be read is reported and skipped. An event's HTTP headers are made straight from its stored ones, as
bytes, without building an event in between. They are the same headers as `penstock.events.http.to_binary` makes for an
event in binary mode; a test compares both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from penstock.contract import records
from penstock.contract.records import Unreadable
from penstock.events import http, kafka_binding
from penstock.events.attributes import TTL
from penstock.events.event import REQUIRED, CloudEvent, MalformedEvent
from penstock.events.memo import Memo
from penstock.kafka.tail import Decoder
from penstock.observability import trace

Fields = Mapping[str, bytes | None]

_REQUIRED = tuple(kafka_binding.PREFIX + name for name in REQUIRED)
_TTL = kafka_binding.PREFIX + TTL
_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")
_VISIBLE = bytes([9, *range(0x20, 0x7F)])
_UNENCODED = http.UNENCODED.encode()
OF_THE_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})
"""Headers that belong to the connection, not to an event they were stored with."""


class _Opening(NamedTuple):
    """How the line of a stored header begins."""

    text: bytes
    plain: bytes
    """Values of these bytes only, which is most of them, are sent as they are; others are checked."""


def event_lines(fields: Fields, with_ttl: bool) -> bytes:
    """Header lines of the event in binary mode, and what travels along with it. Raises MalformedEvent or ValueError."""
    for name in _REQUIRED:
        if not fields.get(name):
            raise MalformedEvent(f"attribute {name[len(kafka_binding.PREFIX) :]!r} is missing")
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
    if name.startswith(kafka_binding.PREFIX):
        value = http.encoded(value.decode()).encode()
    elif name == kafka_binding.CONTENT_TYPE:
        value.decode()
    return _checked(b"%b%b\r\n" % (opening, value), 1)


def _opening(name: str) -> _Opening | None:
    """None where the header is not for the subscriber. Raises ValueError for a name that HTTP does not allow."""
    if name.startswith(kafka_binding.PREFIX):
        return _opening_of(f"{http.PREFIX}{name[len(kafka_binding.PREFIX) :]}", _UNENCODED)
    if name == kafka_binding.CONTENT_TYPE:
        return _opening_of(http.CONTENT_TYPE, _VISIBLE)
    if name.startswith(records.PASSED):
        passed = name[len(records.PASSED) :]
        return None if passed.lower() in OF_THE_CONNECTION else _opening_of(passed, _VISIBLE)
    return None


def _opening_of(name: str, plain: bytes) -> _Opening:
    text = f"{name}: ".encode()
    _checked(text + b"\r\n", 1)
    return _Opening(text, plain)


_OPENINGS = Memo(_opening)


def holds_event(fields: Fields) -> bool:
    """Whether the data's content type is one of an event, so that receivers would take the data for the event sent."""
    kind = fields.get(kafka_binding.CONTENT_TYPE)
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


KEY_HEADER = kafka_binding.PREFIX + "partitionkey"
OVERHEAD_BYTES = 512
"""What a record in memory takes besides its data and its headers, roughly."""
HEADER_BYTES = 128
"""What a header takes besides its value: its name, and both as Python objects."""

CACHED_BYTES = 4096
"""Lists of routes longer than this are not cached."""

OFFSET_DIGITS = 18
"""Digits of the largest offset; a longer number would not fit where offsets are stored."""

_ORIGIN, _ROUTES = records.ORIGIN, records.ROUTES
_IDENTITY = (kafka_binding.PREFIX + "id", kafka_binding.PREFIX + "source", kafka_binding.PREFIX + "type")
_NOT_PARSED = "not parsed"

RawHeaders = Sequence[tuple[str, bytes | None]]


class Matched:
    """One record. What is sent of it is made once, however many routes it goes to, and only when it is sent."""

    __slots__ = (
        "_event",
        "_identity",
        "_lines",
        "_lines_with_ttl",
        "_parent",
        "at",
        "fields",
        "offset",
        "origin",
        "partition",
        "references",
        "routes",
        "size",
        "value",
    )

    def __init__(
        self,
        partition: int,
        offset: int,
        at: int,
        origin: int,
        *,
        routes: tuple[str, ...],
        raw: RawHeaders | Fields,
        value: bytes | None,
    ) -> None:
        self.partition, self.offset, self.at, self.origin = partition, offset, at, origin
        self.routes, self.value = routes, value
        self.fields: Fields = raw if isinstance(raw, dict) else dict(raw)
        """The record's headers."""
        # Values count twice: as they are stored, and in the lines that are made of them.
        headers = 2 * sum(map(len, filter(None, self.fields.values()))) + HEADER_BYTES * len(self.fields)
        self.size = OVERHEAD_BYTES + headers + len(value or b"")
        self.references = 0
        self._event: CloudEvent | None = None
        self._identity: tuple[str, str, str] | None = None
        self._lines: bytes | None = None
        self._lines_with_ttl: bytes | None = None
        self._parent: str | None = _NOT_PARSED

    @property
    def event(self) -> CloudEvent:
        """The event as it was accepted. Raises MalformedEvent if something else than penstock wrote the record."""
        if self._event is None:
            self._event = kafka_binding.from_headers(self.fields.items(), self.value)
        return self._event

    @property
    def identity(self) -> tuple[str, str, str]:
        """Id, source and type of the event, for logs and records of attempts; empty where the record holds none."""
        if self._identity is None:
            texts = [(self.fields.get(name) or b"").decode("utf-8", "replace") for name in _IDENTITY]
            self._identity = (texts[0], texts[1], texts[2])
        return self._identity

    @property
    def parent(self) -> str | None:
        """The trace context of the event."""
        if self._parent is _NOT_PARSED:
            self._parent = trace.parse(self.header(records.TRACE))
        return self._parent

    def lines(self, with_ttl: bool) -> bytes:
        """The event's HTTP header lines in binary mode. Raises ValueError if it cannot be sent."""
        if with_ttl:
            if self._lines_with_ttl is None:
                self._lines_with_ttl = event_lines(self.fields, True)
            return self._lines_with_ttl
        if self._lines is None:
            self._lines = event_lines(self.fields, False)
        return self._lines

    def without_routes(self) -> Matched:
        """The same record without routes: one that is ignored, at its offset in the log."""
        return Matched(self.partition, self.offset, self.at, self.origin, routes=(), raw=self.fields, value=self.value)

    def header(self, name: str) -> str | None:
        """One of penstock's own headers."""
        raw = self.fields.get(name)
        return None if raw is None else raw.decode("utf-8", "replace")

    def ordering_key(self) -> int:
        """A fingerprint of the `partitionkey`; 0 without one. Equal keys have equal fingerprints, which is enough."""
        key = self.header(KEY_HEADER)
        if not key:
            return 0
        # 53 bits: what every JSON reader can take without loss.
        return (int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) >> 11) or 1


def unreadable(partition: int, offset: int) -> Matched:
    """In place of a record that cannot be read: it has no routes, and the gap is not treated as a loss."""
    return Matched(partition, offset, 0, -1, routes=(), raw=(), value=None)


def of_event(partition: int, origin: int, at: int, raw: RawHeaders | None, value: bytes | None) -> Matched:
    """An event as it was accepted, read at its offset in `penstock.events`; without routes."""
    return Matched(partition, origin, at, origin, routes=(), raw=raw or (), value=value)


def read(partition: int, offset: int, at: int, raw: RawHeaders | None, value: bytes | None) -> Matched:
    """The record; markers have no routes. Raises Unreadable."""
    fields = dict(raw or ())
    origin, routes = fields.get(_ORIGIN), fields.get(_ROUTES)
    if _ORIGIN not in fields or _ROUTES not in fields:
        raise Unreadable(f"a header of {_ORIGIN}, {_ROUTES} is missing")
    if origin is None or not origin.isdigit() or len(origin) > OFFSET_DIGITS:
        raise Unreadable(f"{_ORIGIN} is {origin!r}, not an offset")
    joined = routes or b""
    named = _cached_names(joined) if len(joined) <= CACHED_BYTES else _names(joined)
    return Matched(partition, offset, at, int(origin), routes=named, raw=fields, value=value)


def _names(routes: bytes) -> tuple[str, ...]:
    try:
        text = routes.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"{_ROUTES} is not text") from error
    # A route is listed once even if the router listed it twice.
    return tuple(dict.fromkeys(text.split(","))) if text else ()


_cached_names = lru_cache(maxsize=1024)(_names)
"""The same few lists of routes are repeated again and again."""

DECODER = Decoder(read, unreadable)
"""How the topic is read."""
EVENT_DECODER = Decoder(of_event, unreadable)
"""How `penstock.events` is read, by the dispatcher."""
