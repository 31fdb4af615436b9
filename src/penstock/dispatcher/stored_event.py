"""An event's HTTP headers made straight from its stored ones, as bytes: no event is built only to be taken apart again.

The same headers as `penstock.events.http.to_binary` gives for the event; a test holds both against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from penstock.contract import headers
from penstock.events import http, kafka
from penstock.events.broker_attributes import TTL
from penstock.events.event import REQUIRED, MalformedEvent

Fields = Mapping[str, bytes | None]

_REQUIRED = tuple(kafka.PREFIX + name for name in REQUIRED)
_TTL = kafka.PREFIX + TTL
_CONTENT_TYPE = f"{http.CONTENT_TYPE}: ".encode()
_PLAIN = re.compile(
    rb"(?:ce-[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!#$&-~]*\r\n|(?!ce-)[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n)*"
)
"""Lines with nothing in them that must be encoded, which is most: looked at once instead of value by value."""
_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*")
OF_THE_CONNECTION = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})
"""Headers that belong to the connection, whoever stored them with an event."""


def event_lines(fields: Fields, with_ttl: bool) -> bytes:
    """Header lines of the event in binary mode, and what travels along with it. Raises MalformedEvent or ValueError."""
    for name in _REQUIRED:
        if not fields.get(name):
            raise MalformedEvent(f"attribute {name[len(kafka.PREFIX) :]!r} is missing")
    pairs = [
        (opening, raw)
        for name, raw in fields.items()
        if raw is not None and (opening := _opening(name)) is not None and (with_ttl or name != _TTL)
    ]
    lines = b"".join([b"%b%b\r\n" % pair for pair in pairs])
    if lines.count(b"\n") == len(pairs) and _PLAIN.fullmatch(lines) is not None:
        return lines
    return _checked(b"".join([b"%b%b\r\n" % (opening, _encoded(opening, raw)) for opening, raw in pairs]), len(pairs))


def _encoded(opening: bytes, value: bytes) -> bytes:
    """The value as HTTP carries it. Raises ValueError where it is no text."""
    if opening.startswith(b"ce-"):
        return http.encoded(value.decode()).encode()
    if opening == _CONTENT_TYPE:
        value.decode()
    return value


@lru_cache(maxsize=4096)
def _opening(name: str) -> bytes | None:
    """What the header line of a stored header begins with; None where it is not for the subscriber."""
    if name.startswith(kafka.PREFIX):
        return f"{http.PREFIX}{name[len(kafka.PREFIX) :]}: ".encode()
    if name == kafka.CONTENT_TYPE:
        return _CONTENT_TYPE
    if name.startswith(headers.PASSED):
        passed = name[len(headers.PASSED) :]
        return None if passed.lower() in OF_THE_CONNECTION else f"{passed}: ".encode()
    return None


def header_lines(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Header lines of any headers. Raises ValueError for one that can not be sent."""
    lines = [f"{name}: {value}\r\n" for name, value in pairs]
    return _checked("".join(lines).encode("utf-8", "surrogateescape"), len(lines))


def _checked(lines: bytes, count: int) -> bytes:
    """The lines, if they are as many as there should be: nothing in a name or value ends one early."""
    if lines.count(b"\n") != count or _LINES.fullmatch(lines) is None:
        raise ValueError("a header has characters that HTTP does not allow")
    return lines
