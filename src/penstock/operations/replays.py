"""Replays: builds the object from the options of a command, and formats its progress. Pure."""

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
"""Names of the kinds in commands."""
ROUTES = ("Trigger", "Subscription")

LONGEST_NAME = 50
"""Characters of a name that go into the name of its Replay; the server adds some."""


@dataclass(frozen=True)
class ReplaySubject:
    """The object whose events are replayed, such as `trigger/orders`."""

    kind: str
    name: str

    @classmethod
    def read(cls, text: str) -> ReplaySubject:
        """Parses `KIND/NAME`; a name alone means a Trigger. Raises UserError."""
        kind, slash, name = text.partition("/")
        if not slash:
            kind, name = "trigger", text
        if kind.lower() not in KINDS or not name:
            raise UserError(
                f"Invalid replay target {text}.",
                "Write trigger/NAME, subscription/NAME, broker/NAME or channel/NAME.",
                exit_code=2,
            )
        return cls(KINDS[kind.lower()], name)

    @property
    def is_route(self) -> bool:
        """Whether it is a route, which has a subscriber."""
        return self.kind in ROUTES


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a command."""

    since: str | None = None
    until: str | None = None
    ids: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """Attributes with exactly these values: `type=order`."""
    sink: str | None = None
    rate: float | None = None
    dry_run: bool = False
    dead_letters: bool = False
    reason: str | None = None


def replay_of(subject: ReplaySubject, options: ReplayOptions, name: str | None = None) -> Obj:
    """The Replay to create. Raises UserError."""
    if subject.is_route and options.sink:
        raise UserError(
            f"--sink cannot be used with a {subject.kind}: its events go to its subscriber.",
            "Leave --sink out, or name the Broker or Channel.",
            exit_code=2,
        )
    if not subject.is_route and not options.sink:
        raise UserError(f"A replay of a {subject.kind} requires a sink.", "Name it: --sink URL.", exit_code=2)
    window(options.since, options.until)
    reference = {"kind": subject.kind, "name": subject.name}
    spec: Obj = {"target": reference} if subject.is_route else {"source": reference, "sink": {"uri": options.sink}}
    optional = {
        "from": options.since,
        "to": options.until,
        "eventIds": list(options.ids),
        "filters": [{"exact": attribute(text)} for text in options.attributes],
        "deadLetters": options.dead_letters,
        "reason": options.reason,
        "rate": options.rate,
        "dryRun": options.dry_run,
    }
    spec |= {field: value for field, value in optional.items() if value}
    metadata = {"name": name} if name else {"generateName": f"{subject.name[:LONGEST_NAME].rstrip('.-')}-"}
    return {"apiVersion": "penstock.dev/v1alpha1", "kind": "Replay", "metadata": metadata, "spec": spec}


def attribute(text: str) -> dict[str, str]:
    """`type=order` as a filter. Raises UserError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UserError(f"Invalid --where {text}.", "Write NAME=VALUE, such as type=order.", exit_code=2)
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
    """Its progress as a line of text."""
    status, (state, reason, message) = replay.get("status") or {}, succeeded(replay)
    counted, sent, failed = (int(status.get(name) or 0) for name in ("counted", "sent", "failed"))
    counts = f"{counted} found"
    if not (replay.get("spec") or {}).get("dryRun"):
        counts += f", {sent} sent" + (f", {failed} failed" if failed else "")
    if is_over(replay):
        return f"{counts}: {'done' if state == 'True' else f'{reason}: {message}' if message else reason}"
    if not status.get("startTime"):
        return f"pending: {message or reason}" if message or reason else "pending"
    return f"{counts}, {status.get('progress') or '0%'} scanned"


def warning_of(replay: Obj) -> str | None:
    """Which of the requested events are no longer kept."""
    conditions = (replay.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one.get("type") == "EventsRetained"), None)
    return None if found is None else str(found.get("message") or "")
