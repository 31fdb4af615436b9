"""A story: who does what, and what goes wrong, when. Made from a seed, and readable.

A step is a value and says everything, so that a story with some of its steps left out is a story as well.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

TYPES = "abc"
ROUTES = ("r0", "r1", "r2", "r3")
MOST_AT_FIRST = 3

Details = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Step:
    """Something that happens at a time."""

    at: float
    kind: str
    what: str = ""
    """To whom."""
    how: Details = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.how)[name]

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value}" for name, value in self.how)
        return f"{self.at:8.2f} s  {self.kind} {self.what}{f' ({details})' if details else ''}".rstrip()


@dataclass(frozen=True)
class Story:
    """Everything that happens from outside."""

    seed: int
    partitions: int
    executors: int
    """Of a cluster, on which a second pipeline stands by; none: everything is on one machine."""
    notes_flushed: bool
    """Whether what routers note is on disk before it is confirmed, as on the embedded Kafka."""
    settings: Details
    steps: tuple[Step, ...]

    def without(self, left_out: Collection[int]) -> Story:
        """The same without the steps with these numbers."""
        return replace(self, steps=tuple(step for n, step in enumerate(self.steps) if n not in left_out))

    def __str__(self) -> str:
        where = f"a cluster with {self.executors} executors" if self.executors else "one machine"
        notes = "" if self.notes_flushed else ", a Kafka that does not flush the routers' notes"
        settings = "".join(f", {name}={value}" for name, value in self.settings)
        head = f"seed {self.seed}: {where}, {self.partitions} partitions{notes}{settings}"
        return "\n".join([head, *map(str, self.steps)])


SETTINGS: tuple[Details, ...] = (
    (),
    (("max_outstanding", 4), ("max_in_flight", 3), ("catch_up_records", 3)),
    (("max_outstanding", 2), ("max_in_flight", 1), ("catch_up_records", 2), ("cursor_flush_ms", 1000)),
    (("cursor_flush_ms", 3000),),
    (("dispatchers", 2), ("max_outstanding", 6)),
)
"""Small limits, so that what otherwise needs thousands of events happens with a few."""

FAULTS = (
    "kill",
    "freeze",
    "stop",
    "power loss",
    "kafka away",
    "unwritable",
    "unreliable",
    "retention",
    "compact",
    "clock",
    "widen",
    "garbage",
)
ROLES = ("control", "ingress", "pipeline", "pipeline", "jvm", "worker", "worker")
EVERYTHING = "pipeline with all it started"


@dataclass(frozen=True)
class Theme:
    """What a story is about. Defects that need several things at once are found where these things happen often."""

    name: str
    counts: tuple[tuple[int, int], ...]
    """One range is chosen; the story has as many steps as it says."""
    seconds: float
    """Mean time between two steps."""
    kinds: tuple[str, ...]
    """Of steps, each as often as it occurs here."""
    faults: tuple[str, ...]
    most_faults: int
    """How many different kinds of faults one story has at most."""
    executors: tuple[int, ...] = (0, 0, 1, 2)
    partitions: tuple[int, ...] = (1, 1, 2, 3)
    notes_flushed: float = 0.6
    """How likely it is that notes of routers are flushed."""
    least_routes: int = 1
    """How many there are at the beginning at least. With more than one, the filter of the first seldom changes."""
    paused: float = 0.0
    """How likely it is that the first route is paused from early on. Where it always is, it stays so to the end."""


_USERS = ("create", "delete", "filter", "pause", "pause", "resume", "replay", "subscriber", "subscriber")
THEMES = (
    Theme("anything", ((6, 16), (6, 16), (20, 50)), 2.5, ("fault", "fault", "send", "send", "user", "user"), FAULTS, 4),
    Theme("changes", ((30, 60),), 2.5, ("filter",) * 7 + ("fault", "send", "send", "user", "user"), FAULTS, 4),
    Theme(
        "notes are lost",
        ((20, 36),),
        2.5,
        ("filter",) * 4 + ("send", "send", "fault", "fault"),
        ("power loss", "power loss", "power loss", "kill pipeline"),
        4,
        partitions=(1, 1, 1, 2),
        notes_flushed=0.0,
    ),
    Theme(
        "a route is far behind",
        ((90, 130),),
        1.2,
        ("filter",) * 20 + ("send",) * 12 + ("fault",),
        ("kill worker",),
        1,
        least_routes=2,
        executors=(1, 2),
        partitions=(1,),
        paused=1.0,
    ),
    Theme(
        "records are removed",
        ((12, 30),),
        2.5,
        ("send",) * 3 + ("fault",) * 3 + ("gap",) * 2 + ("user",) * 2 + ("filter", "create"),
        ("retention matched", "retention matched", "retention", "freeze worker", "kill pipeline", "power loss"),
        6,
        executors=(0, 1, 2),
        partitions=(1, 1, 2),
        paused=0.8,
    ),
)


def make(seed: int) -> Story:
    """The story of a seed."""
    chance = random.Random(f"story {seed}")
    theme = THEMES[seed % len(THEMES)]
    executors = chance.choice(theme.executors)
    faults = chance.sample(theme.faults, chance.randint(1, theme.most_faults))
    count = chance.randint(*chance.choice(theme.counts))
    first = ROUTES[: chance.randint(theme.least_routes, MOST_AT_FIRST)]
    changed = first if theme.least_routes == 1 else first[1:]
    steps = [_create(chance, 0.0, name) for name in first]
    if chance.random() < theme.paused:
        steps += [Step(1.0, "pause", ROUTES[0]), Step(6.0, "send", how=_how(count=3, seconds=1.0))]
    for at in sorted(round(chance.uniform(2.0, count * theme.seconds), 2) for _ in range(count)):
        kind = chance.choice(theme.kinds)
        steps += _gap(chance, at, changed) if kind == "gap" else [_step(chance, at, kind, faults, executors, changed)]
    steps.sort(key=lambda step: step.at)
    partitions, flushed = chance.choice(theme.partitions), chance.random() < theme.notes_flushed
    return Story(seed, partitions, executors, flushed, chance.choice(SETTINGS), tuple(steps))


def _step(
    chance: random.Random, at: float, kind: str, faults: Sequence[str], executors: int, routes: Sequence[str]
) -> Step:
    match chance.choice(_USERS) if kind == "user" else kind:
        case "fault":
            return _fault(chance, at, chance.choice(faults), executors)
        case "send":
            return Step(at, "send", how=_how(count=chance.choice([1, 3, 10]), seconds=chance.choice([0.0, 1.0, 5.0])))
        case "create":
            return _create(chance, at, chance.choice(ROUTES))
        case "filter":
            return _change(chance, at, routes if chance.random() < 0.9 else ROUTES)
        case "subscriber":
            return Step(at, "subscriber", chance.choice(ROUTES), chance.choice(SUBSCRIBERS))
        case other:
            return Step(at, other, chance.choice(ROUTES))


def _gap(chance: random.Random, at: float, routes: Sequence[str]) -> list[Step]:
    """The dispatcher does not read for a while, and meanwhile retention removes what it has not read, perhaps where one
    generation of the router follows another."""
    steps = [Step(at, "freeze", "worker", _how(seconds=8))]
    if chance.random() < 0.5:
        steps.append(_create(chance, at + 0.2, chance.choice(ROUTES)))
    if chance.random() < 0.5:
        steps.append(_change(chance, at + 0.4, routes))
    steps.append(Step(at + 1.0, "send", how=_how(count=10, seconds=chance.choice([1.0, 3.0]))))
    removed = chance.uniform(2.0, 5.0)
    steps.append(Step(at + removed, "retention", "matched", _how(left=chance.choice([0, chance.randint(2, 20)]))))
    if chance.random() < 0.5:
        steps.append(Step(at + removed + 0.2, "retention", "events", _how(part=1.0)))
        if chance.random() < 0.5:
            steps.append(Step(at + 9.0, "kill", "pipeline"))  # the next one writes many markers
    return [replace(step, at=round(step.at, 2)) for step in steps]


def _how(**values: Any) -> Details:
    return tuple(values.items())


SUBSCRIBERS = (
    _how(),
    _how(latency=0.3),
    _how(latency=2.0),
    _how(failing=0.4),
    _how(failing=1.0),
    _how(hanging=0.2),
    _how(refusing=0.2),
    _how(away=True),
)


def _create(chance: random.Random, at: float, name: str) -> Step:
    how = _how(
        types=_types(chance),
        dialect=chance.choice(["exact", "any", "cesql"]),
        ordered=chance.random() < 0.5,
        retry=chance.choice([0, 2, 1000, 1000]),
        dead_letter=chance.random() < 0.4,
        replies=chance.random() < 0.15,
        past=chance.random() < 0.1,
    )
    return Step(at, "create", name, how)


def _change(chance: random.Random, at: float, routes: Sequence[str]) -> Step:
    return Step(at, "filter", chance.choice(routes), _how(types=_types(chance)))


def _types(chance: random.Random) -> str:
    return "".join(sorted(chance.sample(TYPES, chance.randint(1, len(TYPES)))))


def _fault(chance: random.Random, at: float, kind: str, executors: int) -> Step:
    victims = [*ROLES, *(["executor"] * 2 if executors else [])]
    match kind:
        case "kill pipeline":
            return Step(at, "kill", "pipeline")
        case "kill worker":
            return Step(at, "kill", "worker")
        case "freeze worker":
            return Step(at, "freeze", "worker", _how(seconds=chance.choice([5, 10, 20])))
        case "kill" | "stop":
            return Step(at, kind, chance.choice(victims))
        case "freeze":
            how = _how(seconds=chance.choice([1, 10, 20, 60, 200]))
            return Step(at, kind, chance.choice([*victims, EVERYTHING]), how)
        case "kafka away":
            return Step(at, kind, how=_how(seconds=chance.choice([1, 8, 20])))
        case "unwritable":
            how = _how(partition=chance.randrange(3), seconds=chance.choice([2, 20, 150]))
            return Step(at, kind, chance.choice(["matched", "matched", "cursors", "events"]), how)
        case "unreliable":
            return Step(at, kind, how=_how(seconds=chance.choice([2, 10])))
        case "retention matched":
            return Step(at, "retention", "matched", _how(part=chance.choice([0.8, 1.0, round(chance.random(), 2)])))
        case "retention":
            how = _how(part=chance.choice([0.3, 0.8, 1.0, round(chance.random(), 2)]))
            return Step(at, kind, chance.choice(["matched", "matched", "events"]), how)
        case "clock":
            return Step(at, kind, how=_how(seconds=chance.choice([-86400, -3600, -30, 30, 3600, 86400])))
        case "garbage":
            return Step(at, kind, chance.choice(["routes", "matched", "events"]), _how(route=chance.choice(ROUTES)))
        case _:
            return Step(at, kind)
