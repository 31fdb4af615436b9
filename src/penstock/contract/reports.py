"""The records of `penstock.reports`: what the data plane tells the control plane.

| key | value |
|---|---|
| `ack/<component>/<instance>` | the newest snapshot version in force there, repeated as a sign of life |
| `loss/<route uid>/<partition>` | a range of events that was no longer retained when the route came to it |
| `standing/<route uid>/<instance>` | how the deliveries of a route go in one dispatcher task |
| `replay/<route uid>/<partition>` | how far a Replay has got |
| `type/<target uid>/<hash>` | a type of events, with its source, that passes a target which wants to know |
| `epoch/router` | the number of the router that took over last; for routers |
| `generation/<epoch>` | the generation that routing goes on from, see `generations.py`; also for dispatchers |
| `shut-out/<partition>` | a generation whose records do not count, and the fence that shuts it out; for routers |
| `log/events` | Kafka's id of the topic `penstock.events` that routing goes by; for routers |
| `served/<route uid>` | the router serves the route, or where it stopped to; for the router that comes after it |

Components: `ingress`, `router`, `dispatcher`. An instance that ends in order deletes its ack; one that has not been
heard of for `SILENT_SECONDS` no longer counts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec
import structlog

from penstock.contract.attempts import FailureCause
from penstock.contract.records import read_json
from penstock.contract.routes import Count
from penstock.events.event import CloudEvent

HEARTBEAT_SECONDS = 5.0
SILENT_SECONDS = 20.0

Component = Literal["ingress", "router", "dispatcher"]
COMPONENTS: tuple[Component, ...] = ("ingress", "router", "dispatcher")


class Ack(msgspec.Struct, frozen=True):
    """`component` acts by `version`."""

    component: Component
    instance: str
    version: Count
    at: float
    """Unix time in seconds on the writer's clock."""
    refused: dict[str, str] = {}
    """Routes of that version that the component does without, by uid, and why: only the router has any."""
    waiting: str = ""
    """Why a newer version cannot come into force for now, where the component knows: only the router does."""


class Loss(msgspec.Struct, frozen=True):
    """Events of `penstock.events` that a route was still to get and that retention had already removed."""

    route: str
    partition: Count
    first: Count
    last: Count
    at: float


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the deliveries of a route go in one dispatcher task. Times are Unix seconds; 0: never, or not now."""

    route: str
    instance: str
    at: float
    lag: Count = 0
    """Events that the route has not finished."""
    outstanding: Count = 0
    """Deliveries begun and not finished, waiting retries included."""
    oldest: float = 0.0
    """When the oldest of them was accepted."""
    succeeded: float = 0.0
    """When a delivery last succeeded in this task."""
    failures: Count = 0
    """Attempts that failed in a row; 0 while deliveries succeed."""
    since: float = 0.0
    """When the first of them failed."""
    failed: float = 0.0
    """When the last of them did."""
    due: float = 0.0
    """When the next attempt is due."""
    status: int | None = None
    """The last one's HTTP status; None where no answer came."""
    reason: str = ""
    """Why it failed, in words."""
    cause: FailureCause = FailureCause.DELIVERY_FAILED
    """The same for programs, where no answer came."""
    url: str = ""
    """Where it went."""
    dropped: Count = 0
    """Deliveries given up for good since this task began."""
    dead_lettered: Count = 0
    """Events that the dead letter sink took since this task began."""
    expiring: bool = False
    """Whether retention will soon remove events that wait from wherever they are kept."""


class SeenType(msgspec.Struct, frozen=True):
    """Events of `type` from `source` come to a target."""

    target: str
    type: str
    source: str
    schema: str
    """`dataschema` of one of them; empty where it had none."""
    specversion: str
    at: float


class Served(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is in `penstock.matched` holds for the route, from `start` on."""

    route: str
    start: tuple[Count, ...]
    """As the route's record had it."""
    owed: tuple[Count, ...] | None = None
    """From where on, in each partition, it was left out; None where it was not."""
    since: tuple[Count, ...] = ()
    """From where on a generation read events again for it, in each partition, where one did."""
    until: tuple[Count, ...] = ()
    """Where `penstock.matched` ended when that was done. A log that ends before has lost some of it."""


class ReplayProgress(msgspec.Struct, frozen=True):
    """How far a Replay has got in one partition."""

    route: str
    partition: Count
    position: Count
    """The next offset of `penstock.events` that it looks at."""
    counted: Count
    """Events that it selected so far."""
    failed: Count
    """Those that were given up: dropped, or sent to the dead letter sink."""
    under_way: Count
    """Those that are being delivered. The others, unless events are only counted, have been."""
    missing: Count
    """Offsets that retention had removed before it came to them."""
    finished: bool
    problem: str = ""
    """Why it cannot go on, where that is for good."""


Report = Ack | Loss | Standing | SeenType | Served | ReplayProgress

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "ack": msgspec.json.Decoder(Ack),
    "loss": msgspec.json.Decoder(Loss),
    "standing": msgspec.json.Decoder(Standing),
    "type": msgspec.json.Decoder(SeenType),
    "served": msgspec.json.Decoder(Served),
    "replay": msgspec.json.Decoder(ReplayProgress),
}


def key_of(report: Report) -> str:
    """The report's key in the topic."""
    match report:
        case Ack():
            return f"ack/{report.component}/{report.instance}"
        case Loss():
            return f"loss/{report.route}/{report.partition}"
        case Standing():
            return standing_key(report.route, report.instance)
        case ReplayProgress():
            return replay_key(report.route, report.partition)
        case SeenType():
            digest = hashlib.sha256(f"{report.type}\n{report.source}".encode()).hexdigest()
            return f"type/{report.target}/{digest[:32]}"
        case Served():
            return served_key(report.route)


def served_key(route: str) -> str:
    """The key under which the router notes that it serves a route."""
    return f"served/{route}"


def standing_key(route: str, instance: str) -> str:
    """The key under which a dispatcher task tells how a route's deliveries go."""
    return f"standing/{route}/{instance}"


def replay_key(route: str, partition: int) -> str:
    """Key of how far a Replay has got in a partition."""
    return f"replay/{route}/{partition}"


def encode(report: Report) -> bytes:
    """The report's value in the topic."""
    return msgspec.json.encode(report)


def decode(key: str, value: bytes) -> Report | None:
    """The report behind a key; None for a kind that this reader does not know. Raises Unreadable."""
    decoder = _DECODERS.get(key.partition("/")[0])
    return None if decoder is None else read_json(value, decoder)


class Heard(NamedTuple):
    """An acknowledgement, and when its reader heard it."""

    ack: Ack
    at: float
    """On the reader's own monotonic clock: the clocks of writers may differ, and be put right at any time."""


def heard(ack: Ack, *, monotonic: float, unix: float, fresh: bool) -> Heard:
    """An acknowledgement that is read now. One that is not fresh lay in the topic for as long as its writer says."""
    return Heard(ack, monotonic if fresh else monotonic - max(0.0, unix - ack.at))


def alive(every: Iterable[Heard], now: float) -> list[Ack]:
    """The acknowledgements of instances that were heard of lately."""
    return [ack for ack, at in every if now - at <= SILENT_SECONDS]


def version_in_force(acks: Iterable[Ack]) -> int:
    """The newest version that every component of the data plane has: what Ready may be built on."""
    versions: dict[str, int] = {}
    for ack in acks:
        versions[ack.component] = min(ack.version, versions.get(ack.component, ack.version))
    return min(versions.values()) if all(component in versions for component in COMPONENTS) else 0


# Which types of events pass, for targets that want to know: told once for each type and source, and again after a
# while, so that a description that somebody deleted comes back while such events still come. Bounded, whatever
# producers send: beyond a number of types nothing more is told until the while is over.

AGAIN_SECONDS = 60.0
MOST = 1000
LONGEST = 1024
"""Characters of a type or a source; what is longer is no name that anybody could use."""

log = structlog.get_logger()

Tell = Callable[[SeenType], None]


class SeenTypes:
    """What was told lately."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._told: set[tuple[str, str, str]] = set()
        self._until = 0.0

    def note(self, target: str, events: Iterable[CloudEvent]) -> None:
        """Tells of those types that are news."""
        if (now := self._clock()) >= self._until:
            self._told.clear()
            self._until = now + AGAIN_SECONDS
        for event in events:
            key = (target, event.type, event.source)
            if key not in self._told and len(event.type) <= LONGEST and len(event.source) <= LONGEST:
                self._note(key, event)

    def _note(self, key: tuple[str, str, str], event: CloudEvent) -> None:
        if len(self._told) > MOST:
            return
        self._told.add(key)
        if len(self._told) > MOST:
            log.warning("too many types of events for EventTypes to be made of all of them", most=MOST)
            return
        schema = str(event.attributes.get("dataschema") or "")
        version = str(event.attributes.get("specversion") or "1.0")
        self._tell(SeenType(*key, schema if len(schema) <= LONGEST else "", version, time.time()))
