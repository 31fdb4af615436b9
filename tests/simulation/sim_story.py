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


def make(seed: int) -> Story:
    """The story of a seed."""
    chance = random.Random(f"story {seed}")
    executors = chance.choice([0, 0, 1, 2])
    faults = chance.sample(FAULTS, chance.randint(1, 4))
    shape = chance.choice(["short", "short", "long", "changes"])
    count = {"short": chance.randint(6, 16), "long": chance.randint(20, 50), "changes": chance.randint(40, 70)}[shape]
    steps = [_create(chance, 0.0, name) for name in ROUTES[: chance.randint(1, MOST_AT_FIRST)]]
    for at in sorted(round(chance.uniform(2.0, count * 2.5), 2) for _ in range(count)):
        changes = shape == "changes" and chance.random() < 0.6
        steps.append(_change(chance, at) if changes else _step(chance, at, faults, executors))
    partitions, flushed = chance.choice([1, 1, 2, 3]), chance.random() < 0.6
    return Story(seed, partitions, executors, flushed, chance.choice(SETTINGS), tuple(steps))


def _step(chance: random.Random, at: float, faults: Sequence[str], executors: int) -> Step:
    if chance.random() < 0.35:
        return _fault(chance, at, chance.choice(faults), executors)
    if chance.random() < 0.5:
        return Step(at, "send", how=_how(count=chance.choice([1, 3, 10]), seconds=chance.choice([0.0, 1.0, 5.0])))
    kinds = ["create", "delete", "filter", "pause", "pause", "resume", "replay", "subscriber", "subscriber"]
    match chance.choice(kinds):
        case "create":
            return _create(chance, at, chance.choice(ROUTES))
        case "filter":
            return _change(chance, at)
        case "subscriber":
            return Step(at, "subscriber", chance.choice(ROUTES), chance.choice(SUBSCRIBERS))
        case kind:
            return Step(at, kind, chance.choice(ROUTES))


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


def _change(chance: random.Random, at: float) -> Step:
    return Step(at, "filter", chance.choice(ROUTES), _how(types=_types(chance)))


def _types(chance: random.Random) -> str:
    return "".join(sorted(chance.sample(TYPES, chance.randint(1, len(TYPES)))))


def _fault(chance: random.Random, at: float, kind: str, executors: int) -> Step:
    victims = [*ROLES, *(["executor"] * 2 if executors else [])]
    match kind:
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
        case "retention":
            how = _how(part=chance.choice([0.3, 0.8, 1.0]))
            return Step(at, kind, chance.choice(["matched", "matched", "events"]), how)
        case "clock":
            return Step(at, kind, how=_how(seconds=chance.choice([-86400, -3600, -30, 30, 3600, 86400])))
        case "garbage":
            return Step(at, kind, chance.choice(["routes", "matched", "events"]), _how(route=chance.choice(ROUTES)))
        case _:
            return Step(at, kind)
