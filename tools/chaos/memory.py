"""How much memory the processes of a stack take, over time and by what they do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from tools.chaos import victims
from tools.chaos.plan import DISPATCHER_WORKER, PYSPARK_DAEMON, SPARK_JVM, SUPERVISOR
from tools.chaos.victims import Record

MIB = 2**20
WARM_UP_SECONDS = 120.0
"""Of each process that do not count for the slope: it loads what it needs, and its heap grows to its size."""


class Sample(NamedTuple):
    """What the processes of one role took at a moment."""

    at: float
    """Seconds since the load began."""
    life: int
    """The oldest of the processes, by its pid: another one begins anew."""
    bytes: int


Samples = dict[str, list[Sample]]
"""By role."""


@dataclass(frozen=True)
class Usage:
    """What a role took in a run."""

    role: str
    first: float
    last: float
    most: float
    slope: float | None
    """MiB per hour, within lives and without their beginnings; None where none was long enough."""


def take(samples: Samples, record: Record, at: float) -> None:
    """Adds what every role takes now."""
    for role, processes in roles(record):
        taken = {process.pid: found for process in processes if (found := proportional_bytes(process)) is not None}
        if taken:
            samples.setdefault(role, []).append(Sample(at, min(taken), sum(taken.values())))


def roles(record: Record) -> Iterator[tuple[str, list[psutil.Process]]]:
    """The processes of a stack by what they do."""
    if "pid" in record:
        yield SUPERVISOR, [psutil.Process(record["pid"])]
    for name in record.get("components", {}):
        with contextlib.suppress(psutil.Error):  # it ends while it is looked at
            yield from _of_component(name, victims.component(record, name))


def _of_component(name: str, process: psutil.Process | None) -> Iterator[tuple[str, list[psutil.Process]]]:
    if process is None:
        return
    jvm = victims.spark_jvm(process) if name == "pipeline" else None
    if jvm is None:
        yield name, victims.family(process)
        return
    workers = victims.dispatcher_workers(jvm)
    yield name, [process]
    yield SPARK_JVM, [jvm]
    yield PYSPARK_DAEMON, [one for one in victims.family(jvm) if one != jvm and one not in workers]
    yield DISPATCHER_WORKER, workers


def proportional_bytes(process: psutil.Process) -> int | None:
    """Memory of a process, with its part of what it shares with others (PSS); None where it has ended."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), None)


def usages(samples: Samples) -> list[Usage]:
    """The figures of all roles."""
    return [
        Usage(
            role,
            taken[0].bytes / MIB,
            taken[-1].bytes / MIB,
            max(one.bytes for one in taken) / MIB,
            slope(taken),
        )
        for role, taken in samples.items()
    ]


def slope(taken: Sequence[Sample]) -> float | None:
    """MiB per hour by least squares: one slope for all lives, each with a level of its own."""
    lives: dict[int, list[Sample]] = {}
    for one in taken:
        lives.setdefault(one.life, []).append(one)
    above = below = 0.0
    for life in lives.values():
        steady = [one for one in life if one.at >= life[0].at + WARM_UP_SECONDS]
        if len(steady) < 2:
            continue
        middle, level = (sum(values) / len(steady) for values in zip(*((s.at, s.bytes) for s in steady), strict=True))
        above += sum((one.at - middle) * (one.bytes - level) for one in steady)
        below += sum((one.at - middle) ** 2 for one in steady)
    return above / below * 3600 / MIB if below else None
