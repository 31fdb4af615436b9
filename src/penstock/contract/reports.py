"""The records of `penstock.reports`: what the data plane reports to the control plane.

| key | value |
|---|---|
| `ack/<component>/<instance>` | the newest snapshot version in force there, repeated as a sign of life |
| `loss/<route uid>/<partition>` | a range of events that retention removed before the route got them |
| `standing/<route uid>/<instance>` | the health of a route: how its deliveries go in one dispatcher task |
| `replay/<route uid>/<partition>` | the progress of a Replay |
| `type/<target uid>/<hash>` | a type of events, with its source, that a target accepted which reports types |
| `epoch/router` | the number of the router that took over last; for routers |
| `generation/<epoch>` | the generation that routing continues from, see `generations.py`; for routers and dispatchers |
| `shut-out/<partition>` | a generation whose records do not count, and the fence that excludes it; for routers |
| `log/events` | Kafka's id of the topic `penstock.events` that is routed; for routers |
| `served/<route uid>` | that the router serves the route, or where it stopped serving it; for the next router |

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
    """`component` has applied `version`."""

    component: Component
    instance: str
    version: Count
    at: float
    """Unix time in seconds on the writer's clock."""
    refused: dict[str, str] = {}
    """Routes of that version that the component does not serve, by uid, with the reason: only the router has any."""
    waiting: str = ""
    """Why a newer version cannot take effect for now, where the component knows: only the router does."""


class Loss(msgspec.Struct, frozen=True):
    """Events of `penstock.events` that retention removed before the route got them."""

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
    """The last one's HTTP status; None where there was no response."""
    reason: str = ""
    """Why it failed, as a message."""
    cause: FailureCause = FailureCause.DELIVERY_FAILED
    """Why it failed, for programs, where there was no response."""
    url: str = ""
    """Its destination."""
    dropped: Count = 0
    """Events dropped since this task began."""
    dead_lettered: Count = 0
    """Events that the dead letter sink accepted since this task began."""
    expiring: bool = False
    """Whether retention will soon remove events that wait, wherever they are kept."""


class SeenType(msgspec.Struct, frozen=True):
    """A target accepts events of `type` from `source`."""

    target: str
    type: str
    source: str
    schema: str
    """`dataschema` of one of the events; empty where it has none."""
    specversion: str
    at: float


class Served(msgspec.Struct, frozen=True, omit_defaults=True):
    """`penstock.matched` is complete for the route, from `start` on."""

    route: str
    start: tuple[Count, ...]
    """As the route's record had it."""
    owed: tuple[Count, ...] | None = None
    """From which offset of each partition on it was left out; None where it was not."""
    since: tuple[Count, ...] = ()
    """From which offset of each partition on a generation read events again for it, where one did."""
    until: tuple[Count, ...] = ()
    """Where `penstock.matched` ended afterwards. If it ends before that now, some of its records are lost."""


class ReplayProgress(msgspec.Struct, frozen=True):
    """The progress of a Replay in one partition."""

    route: str
    partition: Count
    position: Count
    """The next offset of `penstock.events` that it reads."""
    counted: Count
    """Events that it selected so far."""
    failed: Count
    """Those that were dropped or sent to the dead letter sink."""
    under_way: Count
    """Those that are being delivered. The others have been, unless events are only counted."""
    missing: Count
    """Offsets that retention had removed before it read them."""
    finished: bool
    problem: str = ""
    """Why it has failed for good."""


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
    """The key under which the router reports that it serves a route."""
    return f"served/{route}"


def standing_key(route: str, instance: str) -> str:
    """The key under which a dispatcher task reports the health of a route."""
    return f"standing/{route}/{instance}"


def replay_key(route: str, partition: int) -> str:
    """The key of the progress of a Replay in a partition."""
    return f"replay/{route}/{partition}"


def encode(report: Report) -> bytes:
    """The report's value in the topic."""
    return msgspec.json.encode(report)


def decode(key: str, value: bytes) -> Report | None:
    """The report behind a key; None for a kind that this reader does not know. Raises Unreadable."""
    decoder = _DECODERS.get(key.partition("/")[0])
    return None if decoder is None else read_json(value, decoder)


class Heard(NamedTuple):
    """An acknowledgement, and when it was received."""

    ack: Ack
    at: float
    """On the reader's own monotonic clock: the clocks of writers may differ, or be set at any time."""


def heard(ack: Ack, *, monotonic: float, unix: float, fresh: bool) -> Heard:
    """An acknowledgement that is read now. If it is not `fresh`, its age follows from the writer's clock."""
    return Heard(ack, monotonic if fresh else monotonic - max(0.0, unix - ack.at))


def alive(every: Iterable[Heard], now: float) -> list[Ack]:
    """The acknowledgements of instances that are not silent."""
    return [ack for ack, at in every if now - at <= SILENT_SECONDS]


def version_in_force(acks: Iterable[Ack]) -> int:
    """The newest version that every component of the data plane has applied. Ready depends on it."""
    versions: dict[str, int] = {}
    for ack in acks:
        versions[ack.component] = min(ack.version, versions.get(ack.component, ack.version))
    return min(versions.values()) if all(component in versions for component in COMPONENTS) else 0


AGAIN_SECONDS = 60.0
MOST = 1000
LONGEST = 1024
"""Characters of a type or a source; longer ones are not reported."""

log = structlog.get_logger()

Tell = Callable[[SeenType], None]


class SeenTypes:
    """Reports each type and source of events once in `AGAIN_SECONDS`, so that an EventType that was deleted is created
    again while there are such events. At most `MOST` of them, whatever producers send."""

    def __init__(self, report: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock = report, clock
        self._reported: set[tuple[str, str, str]] = set()
        self._until = 0.0

    def note(self, target: str, events: Iterable[CloudEvent]) -> None:
        """Reports the types that were not reported lately."""
        if (now := self._clock()) >= self._until:
            self._reported.clear()
            self._until = now + AGAIN_SECONDS
        for event in events:
            key = (target, event.type, event.source)
            if key not in self._reported and len(event.type) <= LONGEST and len(event.source) <= LONGEST:
                self._note(key, event)

    def _note(self, key: tuple[str, str, str], event: CloudEvent) -> None:
        if len(self._reported) > MOST:
            return
        self._reported.add(key)
        if len(self._reported) > MOST:
            log.warning("too many types of events for EventTypes to be made of all of them", most=MOST)
            return
        schema = str(event.attributes.get("dataschema") or "")
        version = str(event.attributes.get("specversion") or "1.0")
        self._report(SeenType(*key, schema if len(schema) <= LONGEST else "", version, time.time()))
