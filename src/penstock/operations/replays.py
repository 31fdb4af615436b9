"""Replays: the object that the options of a command ask for, and its progress as a line. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kube.kinds import Obj
from penstock.operations.times import window
from penstock.runtime.errors import UserError

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


@dataclass(frozen=True)
class ReplaySubject:
    """What the events are of: `trigger/orders`."""

    kind: str
    name: str

    @classmethod
    def read(cls, text: str) -> ReplaySubject:
        """Of a name alone, a Trigger is meant. Raises UserError."""
        kind, slash, name = text.partition("/")
        if not slash:
            kind, name = "trigger", text
        if kind.lower() not in KINDS or not name:
            raise UserError(
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
    """The Replay, as it is created. Raises UserError."""
    if place.is_route and wishes.sink:
        raise UserError(
            f"A {place.kind} has a subscriber; --sink is for the events of a Broker or channel.",
            "Leave --sink out, or name the Broker.",
            exit_code=2,
        )
    if not place.is_route and not wishes.sink:
        raise UserError(f"Where should the events of the {place.kind} go?", "Name it: --sink URL.", exit_code=2)
    window(wishes.since, wishes.until)
    reference = {"kind": place.kind, "name": place.name}
    spec: Obj = {"target": reference} if place.is_route else {"source": reference, "sink": {"uri": wishes.sink}}
    optional = {
        "from": wishes.since,
        "to": wishes.until,
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


def attribute(text: str) -> dict[str, str]:
    """`type=order` as a filter. Raises UserError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UserError(f"{text} is not NAME=VALUE.", "Write it like type=order.", exit_code=2)
    return {name: value}


def succeeded(replay: Obj) -> tuple[str, str, str]:
    """State, reason and message of `Succeeded`."""
    conditions = (replay.get("status") or {}).get("conditions") or []
    found: Obj = next((one for one in conditions if one.get("type") == "Succeeded"), {})
    return found.get("status", "Unknown"), found.get("reason", ""), found.get("message", "")


def is_over(replay: Obj) -> bool:
    """Whether it has ended."""
    return bool((replay.get("status") or {}).get("completionTime"))


def line_of(replay: Obj) -> str:
    """How far it has got."""
    status, (state, reason, message) = replay.get("status") or {}, succeeded(replay)
    counted, sent, failed = (int(status.get(name) or 0) for name in ("counted", "sent", "failed"))
    counts = f"{counted} counted"
    if not (replay.get("spec") or {}).get("dryRun"):
        counts += f", {sent} sent" + (f", {failed} failed" if failed else "")
    if is_over(replay):
        return f"{counts}: {'done' if state == 'True' else f'{reason}: {message}' if message else reason}"
    if not status.get("startTime"):
        return f"waits: {message or reason or 'pending'}"
    return f"{counts}, {status.get('progress') or '0%'} looked at"


def warning_of(replay: Obj) -> str | None:
    """Which of the requested events are no longer kept."""
    conditions = (replay.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one.get("type") == "EventsRetained"), None)
    return None if found is None else str(found.get("message") or "")
