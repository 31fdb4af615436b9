"""The attributes a Broker gives to every event that enters it: arrival time, and the limit on loops.

An event that comes back into a Broker as a reply has one life less; one that has none left is refused. Whoever puts
an event into a Broker applies these, be it the ingress or a reply.
"""

from __future__ import annotations

import re
from functools import lru_cache

from penstock.events.event import CloudEvent, MalformedEvent
from penstock.timestamps import rfc3339_of

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
