"""What CloudEvents asks of context attributes: their names, which must be there, and what their values look like.

One set of rules for every binding. Values are in canonical string form here; a binding brings them into it first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache

from penstock.events import media_type
from penstock.events.event import REQUIRED, VERSIONS, CloudEvent, MalformedEvent
from penstock.runtime.times import rfc3339_of

_NAME = re.compile(r"[a-z0-9]+")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_RESERVED = frozenset({"data"})
"""Names that the JSON format uses for something else than attributes."""

ATTRIBUTES_BYTES = 64 * 1024
"""How long the names and values of an accepted event's attributes may be together, in UTF-8. They are kept in memory
and sent as headers, unlike data, and no more of them would be taken in binary mode: a request's headers have the same
limit."""

SHOWN_LENGTH = 64
"""How much of a refused value a message repeats."""


class AttributesTooLarge(MalformedEvent):
    """The attributes of an event are longer than they may be; to be answered 413."""


def shown(value: str) -> str:
    """The value as a message shows it: quoted, cut, in ASCII."""
    return ascii(value if len(value) <= SHOWN_LENGTH else value[:SHOWN_LENGTH] + "…")


def check_name(name: str) -> None:
    """Refuses an invalid attribute name: it has lower-case letters and digits only."""
    if _NAME.fullmatch(name) is None:
        raise MalformedEvent(f"{shown(name)} is not an attribute name: only letters and digits are allowed")
    if name in _RESERVED:
        raise MalformedEvent(f"{name!r} is not an attribute name: it is reserved for the event's data")


def check_text(name: str, value: str) -> None:
    """Refuses characters that no attribute may contain."""
    # Nearly every value is printable ASCII, which needs no regular expression.
    if not (value.isascii() and value.isprintable()) and (found := _FORBIDDEN.search(value)):
        raise MalformedEvent(f"attribute {name!r} contains the forbidden character U+{ord(found[0]):04X}")


def check_event(attributes: Mapping[str, str]) -> None:
    """Refuses attributes that make no valid event; says which one and why."""
    version = attributes.get("specversion")
    if version not in VERSIONS:
        if version is None:
            raise MalformedEvent("attribute 'specversion' is missing")
        raise MalformedEvent(f"attribute 'specversion' is {shown(version)}; understood are {' and '.join(VERSIONS)}")
    if not (attributes.get("id") and attributes.get("source") and attributes.get("type")):
        name = next(name for name in REQUIRED if not attributes.get(name))
        raise MalformedEvent(f"attribute {name!r} is {'empty' if name in attributes else 'missing'}")
    if attributes.get("subject") == "":
        raise MalformedEvent("attribute 'subject' is empty; leave it out where there is none")
    if (time := attributes.get("time")) is not None and not _is_time(time):
        raise MalformedEvent(
            f"attribute 'time' is {shown(time)}, which is not an RFC 3339 time such as 2026-01-31T12:00:00Z"
        )
    kind = attributes.get("datacontenttype")
    if kind is not None and media_type.parse(kind) is None:
        raise MalformedEvent(f"attribute 'datacontenttype' is {shown(kind)}, which is not a media type")
    if version == "1.0":
        schema = attributes.get("dataschema")
        if schema is not None and _ABSOLUTE_URI.fullmatch(schema) is None:
            raise MalformedEvent(f"attribute 'dataschema' is {shown(schema)}, which is not an absolute URI")
    else:
        _check_legacy(attributes)


def check_size(attributes: Mapping[str, str]) -> None:
    """Refuses attributes that are too long together."""
    size = sum(len(name) + len(value.encode()) for name, value in attributes.items())
    if size > ATTRIBUTES_BYTES:
        raise AttributesTooLarge(f"the attributes of the event have {size} bytes; {ATTRIBUTES_BYTES} are allowed")


def _check_legacy(attributes: Mapping[str, str]) -> None:
    """What version 0.3 has and 1.0 has not."""
    if attributes.get("schemaurl") == "":
        raise MalformedEvent("attribute 'schemaurl' is empty; leave it out where there is none")
    encoding = attributes.get("datacontentencoding")
    if encoding is not None and encoding.lower() != "base64":
        raise MalformedEvent(f"attribute 'datacontentencoding' is {shown(encoding)}; understood is base64")


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    try:
        date(int(found[1]) or 1, int(found[2]), int(found[3]))
    except ValueError:
        return False
    return True


# The attributes that a Broker sets on every event that enters it, from the ingress or as a reply: arrival time, and the
# TTL, which limits loops. Each time an event re-enters a Broker its TTL decreases; at 0 the event is refused.

ARRIVAL_TIME = "knativearrivaltime"
TTL = "knativebrokerttl"

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


class TooManyHops(MalformedEvent):
    """The event has passed through Brokers as often as its time to live allows."""


@lru_cache(maxsize=1)
def arrival_time(now_ns: int) -> str:
    """An RFC 3339 time with nanoseconds, in UTC. The events of a batch share it."""
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{_second(seconds)}.{nanos:09d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Thousands of events share a second."""
    return rfc3339_of(seconds)[:-1]


def next_ttl(present: str | None, highest: int) -> int:
    """The TTL of an event that enters a Broker: the highest if it has none that can be read, one less if it has.

    A sender cannot make it higher: that would be the sender's choice of how often a loop is gone through.
    """
    if present is None or _INTEGER.fullmatch(present) is None:
        return highest
    return min(max(int(present) - 1, 0), highest)


def enter_broker(event: CloudEvent, highest_ttl: int, now_ns: int) -> CloudEvent:
    """The event as the Broker stores it. Raises TooManyHops when its TTL is used up."""
    ttl = next_ttl(event.attributes.get(TTL), highest_ttl)
    if ttl <= 0:
        raise TooManyHops(f"attribute {TTL!r} is used up: the event has gone through Brokers in a loop")
    return CloudEvent({**event.attributes, TTL: str(ttl), ARRIVAL_TIME: arrival_time(now_ns)}, event.data)
