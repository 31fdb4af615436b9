"""Which process is hit, how and when: a sequence that follows from the seed alone.

Victims come in rounds: each round has every one of them once, in random order, so that a long run hits all equally
often. The ways of a victim come in rounds likewise.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


class Way(enum.StrEnum):
    """What is done to a process."""

    KILL = "SIGKILL"
    FREEZE = "SIGSTOP"
    TERM = "SIGTERM"


SUPERVISOR = "supervisor"
SPARK_JVM = "Spark's JVM"
DISPATCHER_WORKER = "dispatcher worker"
PYSPARK_DAEMON = "PySpark daemon"
COMPONENTS = ("kafka", "apiserver", "ingress", "control", "pipeline")
"""Processes that the supervisor starts itself, by the names it gives them."""
VICTIMS = (*COMPONENTS, SPARK_JVM, PYSPARK_DAEMON, DISPATCHER_WORKER, SUPERVISOR)

FROZEN_SECONDS = (1.0, 10.0)
PAUSE_SECONDS = (0.5, 4.0)
HURRY_SECONDS = (0.1, 3.0)
HURRIED = 0.2
"""The part of faults that do not wait for the recovery from the one before."""


@dataclass(frozen=True)
class Fault:
    """One blow."""

    number: int
    """From 1."""
    victim: str
    way: Way
    frozen: float
    """Seconds between SIGSTOP and SIGCONT; 0 for the other ways."""
    hurried: bool
    """Whether it comes while the stack still recovers from the fault before it."""
    pause: float
    """Seconds after the recovery from the fault before it; after that fault itself where hurried."""


def sequence(seed: int, faults: int) -> list[Fault]:
    """The faults of a run; a longer run with the same seed begins with the same ones."""
    return list(islice(_endless(random.Random(seed)), faults))


def _endless(chance: random.Random) -> Iterator[Fault]:
    victims = _rounds(VICTIMS, chance)
    ways = {victim: _rounds(tuple(Way), chance) for victim in VICTIMS}
    number = 0
    while True:
        number += 1
        victim = next(victims)
        way = next(ways[victim])
        frozen = chance.uniform(*FROZEN_SECONDS)
        hurried = number > 1 and chance.random() < HURRIED
        pause = chance.uniform(*(HURRY_SECONDS if hurried else PAUSE_SECONDS))
        yield Fault(number, victim, way, frozen if way is Way.FREEZE else 0.0, hurried, pause)


def _rounds(items: tuple[_T, ...], chance: random.Random) -> Iterator[_T]:
    while True:
        yield from chance.sample(items, len(items))
