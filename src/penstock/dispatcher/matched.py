"""A record of `penstock.matched`: an event, the routes it is for, and where in `penstock.events` it came from.

A record that cannot be read is no reason to stop: it is reported and passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from penstock.contract import headers
from penstock.events import kafka
from penstock.events.event import CloudEvent, MalformedEvent

KEY_HEADER = kafka.PREFIX + "partitionkey"
OVERHEAD_BYTES = 2048
"""What a record in memory takes besides its data, roughly: headers as Python objects."""

_ORIGIN, _ROUTES = headers.ORIGIN, headers.ROUTES

RawHeaders = Sequence[tuple[str, bytes | None]]


class Unreadable(ValueError):
    """The record is not what the router writes."""


class Matched:
    """One record. The event in it is parsed once, however many routes it goes to, and only when it is sent."""

    __slots__ = ("_event", "at", "headers", "offset", "origin", "partition", "references", "routes", "size", "value")

    def __init__(
        self,
        partition: int,
        offset: int,
        at: int,
        origin: int,
        *,
        routes: tuple[str, ...],
        raw: RawHeaders,
        value: bytes | None,
    ) -> None:
        self.partition, self.offset, self.at, self.origin = partition, offset, at, origin
        self.routes, self.headers, self.value = routes, raw, value
        self.size = OVERHEAD_BYTES + len(value or b"")
        self.references = 0
        self._event: CloudEvent | None = None

    @property
    def event(self) -> CloudEvent:
        """The event as it was accepted. Raises MalformedEvent if somebody else wrote the record."""
        if self._event is None:
            self._event = kafka.from_headers(self.headers, self.value)
        return self._event

    @property
    def identity(self) -> tuple[str, str, str]:
        """Id, source and type of the event, for logs and facts; empty where the record holds none."""
        try:
            return self.event.id, self.event.source, self.event.type
        except MalformedEvent:
            return "", "", ""

    def header(self, name: str) -> str | None:
        """One of penstock's own headers."""
        for present, raw in self.headers:
            if present == name and raw is not None:
                return raw.decode()
        return None

    def ordering_key(self) -> int:
        """A fingerprint of the `partitionkey`; 0 without one. Equal keys have equal fingerprints, which is enough."""
        key = self.header(KEY_HEADER)
        if not key:
            return 0
        # 53 bits: what every JSON reader can take without loss.
        return (int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) >> 11) or 1


def passed_over(partition: int, offset: int) -> Matched:
    """Stands for a record that cannot be read: nobody gets it, and nobody takes the gap for a loss."""
    return Matched(partition, offset, 0, -1, routes=(), raw=(), value=None)


def read(partition: int, offset: int, at: int, raw: RawHeaders | None, value: bytes | None) -> Matched:
    """The record; markers have no routes. Raises Unreadable."""
    origin: int | None = None
    routes: tuple[str, ...] | None = None
    for name, content in raw or ():
        if name == _ORIGIN:
            if content is None or not content.isdigit():
                raise Unreadable(f"{_ORIGIN} is {content!r}, not an offset")
            origin = int(content)
        elif name == _ROUTES:
            try:
                text = (content or b"").decode()
            except UnicodeDecodeError as error:
                raise Unreadable(f"{_ROUTES} is not text") from error
            # A route is named once even if the router should name it twice.
            routes = tuple(dict.fromkeys(text.split(","))) if text else ()
    if origin is None or routes is None:
        raise Unreadable(f"a header of {_ORIGIN}, {_ROUTES} is missing")
    return Matched(partition, offset, at, origin, routes=routes, raw=raw or (), value=value)
