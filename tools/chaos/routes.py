"""The Broker, the Channel and their routes: which subscriber each has, and what it must get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.resources.delivery import ORDERING, PAUSED
from tools.benchmarks import objects
from tools.chaos.checker import Era, Expected
from tools.chaos.events import ANSWER, ASK, CHANNEL, CHANNEL_ANSWER, COMMON, HEAVY, LEFT, RARE, RIGHT

NAMESPACE = "chaos"
BROKER = objects.broker("chaos")
CHANNEL_OBJECT = objects.channel("chaos")
DEAD_URL = "http://127.0.0.1:9/"
"""The discard port, where nothing listens."""
DEAD_LETTERS = "dead-letters"
COMES_AND_GOES = "comes-and-goes"
PAUSED_ROUTE = "paused"
CHANGING = "changing"

ALL = frozenset({COMMON, LEFT, RIGHT, HEAVY, RARE, ASK, ANSWER})
"""What passes the Broker."""
FILTERS = (frozenset({COMMON, LEFT}), frozenset({COMMON, RIGHT}))
"""Between these two the route `changing` changes."""

PATIENT: dict[str, Any] = {"retry": 1000, "backoffPolicy": "linear", "backoffDelay": "PT0.1S"}
"""More attempts than a flaky subscriber or a run of faults can use up."""
TIMEOUT = "PT2S"


@dataclass(frozen=True)
class Route:
    """A Trigger or Subscription that is there from the first event to the last."""

    name: str
    types: frozenset[str]
    """What its subscriber must get; what it matches, where its subscriber is alive."""
    kind: str = "Trigger"
    filters: tuple[dict[str, Any], ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    delivery: dict[str, Any] = field(default_factory=lambda: PATIENT)
    dead: bool = False
    reply_to: str | None = None
    """The subscriber that a Subscription's replies go to."""

    @property
    def ordered(self) -> bool:
        """Whether order per key is promised."""
        return self.annotations.get(ORDERING) == "key"


def one_of(types: frozenset[str]) -> tuple[dict[str, Any], ...]:
    """A filter that lets these types through."""
    return ({"any": [{"exact": {"type": kind}} for kind in sorted(types)]},)


def in_cesql(types: frozenset[str]) -> tuple[dict[str, Any], ...]:
    """The same in CESQL."""
    return ({"cesql": f"type IN ({', '.join(repr(kind) for kind in sorted(types))})"},)


_KEY = {ORDERING: "key"}


def _trigger(name: str, *types: str, cesql: bool = False, **more: Any) -> Route:
    chosen = frozenset(types)
    return Route(name, chosen, filters=in_cesql(chosen) if cesql else one_of(chosen), **more)


STEADY = (
    Route("all", ALL),
    _trigger("ordered", COMMON, HEAVY, annotations=_KEY),
    _trigger("ordered-flaky", COMMON, annotations=_KEY, delivery={**PATIENT, "timeout": TIMEOUT}),
    _trigger("flaky", LEFT, RIGHT, HEAVY, cesql=True, delivery={**PATIENT, "timeout": TIMEOUT}),
    _trigger("slow", HEAVY),
    _trigger("dead", RARE, dead=True, delivery={"retry": 2}),
    _trigger(COMES_AND_GOES, RARE),
    _trigger(PAUSED_ROUTE, LEFT),
    _trigger("asks", ASK, annotations=_KEY),
    _trigger("answers", ANSWER, annotations=_KEY),
    Route("channel", frozenset({CHANNEL}), "Subscription", annotations=_KEY),
    Route("channel-asks", frozenset({CHANNEL}), "Subscription", reply_to="channel-answers"),
)
HELD = _trigger("held", LEFT, RIGHT, annotations=_KEY)
"""For experiments that pause it throughout, so that its events wait."""
HEALTHY = frozenset({"all", "ordered", "asks", "answers", "channel", "channel-asks"})
"""Subscribers whose deliveries show that the stack is well again."""


def expectations(steady: Iterable[Route] = STEADY) -> list[Expected]:
    """What every subscriber of the steady routes must get. A dead one's events belong to the dead letter sink."""
    there = list(steady)
    found = [Expected(route.name, [Era(route.types)], route.ordered) for route in there if not route.dead]
    dead = frozenset[str]().union(*(route.types for route in there if route.dead))
    answers = [Expected(r.reply_to, [Era(frozenset({CHANNEL_ANSWER}))]) for r in there if r.reply_to is not None]
    return [*found, Expected(DEAD_LETTERS, [Era(dead)]), *answers]


def manifest(route: Route, urls: Urls) -> dict[str, Any]:
    """The object of a route."""
    described: dict[str, Any] = {"name": route.name, "subscriber": DEAD_URL if route.dead else urls.of(route.name)}
    if route.kind == "Subscription":
        made = objects.subscription("chaos", described)
    else:
        made = objects.trigger("chaos", {**described, "filters": list(route.filters)})
    made["metadata"]["annotations"] = dict(route.annotations)
    delivery = dict(route.delivery)
    if route.dead:
        delivery["deadLetterSink"] = {"uri": urls.of(DEAD_LETTERS)}
    made["spec"]["delivery"] = delivery
    if route.reply_to is not None:
        made["spec"]["reply"] = {"uri": urls.of(route.reply_to)}
    return made


def pause(*, paused: bool) -> dict[str, Any]:
    """The change that pauses or resumes a route."""
    return {"metadata": {"annotations": {PAUSED: "true" if paused else None}}}


class Urls:
    """Where subscribers are reached."""

    def __init__(self, port: int, ports: dict[str, int]) -> None:
        self._port, self._ports = port, ports
        """Subscribers with a port of their own."""

    def of(self, name: str) -> str:
        """The address of a subscriber."""
        return f"http://127.0.0.1:{self._ports.get(name, self._port)}/{name}"
