"""From the words of a command to a Replay. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.engine.problem import Problem

Obj = dict[str, Any]

KINDS = {
    "trigger": "Trigger",
    "triggers": "Trigger",
    "subscription": "Subscription",
    "subscriptions": "Subscription",
    "sub": "Subscription",
    "broker": "Broker",
    "brokers": "Broker",
    "channel": "Channel",
    "channels": "Channel",
    "ch": "Channel",
    "inmemorychannel": "InMemoryChannel",
    "inmemorychannels": "InMemoryChannel",
    "imc": "InMemoryChannel",
}
"""What a kind may be called."""
ROUTES = ("Trigger", "Subscription")

LONGEST_NAME = 50
"""What of a name is kept in the name of its Replay; the server adds some letters."""

_SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True)
class ReplaySubject:
    """What the events are of: `trigger/orders`."""

    kind: str
    name: str

    @classmethod
    def read(cls, text: str) -> ReplaySubject:
        """Of a name alone, a Trigger is meant. Raises Problem."""
        kind, slash, name = text.partition("/")
        if not slash:
            kind, name = "trigger", text
        if kind.lower() not in KINDS or not name:
            raise Problem(
                f"{text} is nothing to replay.", "Name it like trigger/orders or broker/default.", exit_code=2
            )
        return cls(KINDS[kind.lower()], name)

    @property
    def is_route(self) -> bool:
        """Whether events are delivered by it."""
        return self.kind in ROUTES


@dataclass(frozen=True)
class Wishes:
    """The flags of a command."""

    since: str | None = None
    until: str | None = None
    ids: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """`type=order`: attributes with exactly these values."""
    sink: str | None = None
    rate: float | None = None
    dry_run: bool = False
    given_up: bool = False
    reason: str | None = None


def replay_of(place: ReplaySubject, wishes: Wishes, name: str | None = None) -> Obj:
    """The Replay, as it is created. Raises Problem."""
    if place.is_route and wishes.sink:
        raise Problem(
            f"A {place.kind} has a subscriber; --sink is for the events of a Broker or channel.",
            "Leave --sink out, or name the Broker.",
            exit_code=2,
        )
    if not place.is_route and not wishes.sink:
        raise Problem(f"Where should the events of the {place.kind} go?", "Name it: --sink URL.", exit_code=2)
    reference = {"kind": place.kind, "name": place.name}
    spec: Obj = {"target": reference} if place.is_route else {"source": reference, "sink": {"uri": wishes.sink}}
    optional = {
        "from": None if wishes.since is None else moment(wishes.since),
        "to": None if wishes.until is None else moment(wishes.until),
        "eventIds": list(wishes.ids),
        "filters": [{"exact": attribute(text)} for text in wishes.attributes],
        "deadLetters": wishes.given_up,
        "reason": wishes.reason,
        "rate": wishes.rate,
        "dryRun": wishes.dry_run,
    }
    spec |= {field: value for field, value in optional.items() if value}
    metadata = {"name": name} if name else {"generateName": f"{place.name[:LONGEST_NAME].rstrip('.-')}-"}
    return {"apiVersion": "penstock.dev/v1alpha1", "kind": "Replay", "metadata": metadata, "spec": spec}


def moment(text: str) -> str:
    """`2h`, `1d12h` as the API has durations; a time, and what the API will refuse, as it is."""
    found = _SHORT.fullmatch(text)
    if found is None or not text:
        return text
    days, hours, minutes, seconds = found.groups()
    clock = "".join(f"{part}{unit}" for part, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if part)
    return f"P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"


def attribute(text: str) -> dict[str, str]:
    """`type=order` as a filter. Raises Problem."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise Problem(f"{text} is no attribute with a value.", "Write it like type=order.", exit_code=2)
    return {name: value}
