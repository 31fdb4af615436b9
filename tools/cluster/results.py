"""What a run has shown: which promises were kept, as a table for people and as JSON for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from tools.benchmarks.report import machine
from tools.chaos.checker import Findings
from tools.cluster import yardstick

LONGEST_PAUSE_SECONDS = 30.0
LONGEST_TAKE_OVER_SECONDS = 15.0
SHOWN = 5
HEAD = """| what | how | taken over | longest pause | over after | machine |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Outcome:
    """A fault and what came of it, in seconds."""

    what: str
    victim: str
    take_over: float | None
    over: float
    """From the fault to the end of the longest pause."""
    pause: float
    """The longest time without any delivery, until everything was as before."""
    slowness: float = 1.0
    """How many times as slow as the reference the machine was, before or after the fault."""
    planned: bool = False
    """Whether the pause belongs to what was done, as to a change that an operator makes."""

    @property
    def too_long(self) -> list[str]:
        """Which times are beyond their bounds."""
        found = []
        if self.pause > LONGEST_PAUSE_SECONDS and not self.planned:
            found.append(f"{self.victim} {self.what}: nothing was delivered for {self.pause:.1f} s")
        if self.take_over is not None and self.take_over > LONGEST_TAKE_OVER_SECONDS:
            found.append(f"{self.victim} {self.what}: its role was taken over after {self.take_over:.1f} s")
        return found

    @property
    def row(self) -> str:
        """A line of the table."""
        taken = "" if self.take_over is None else f"{self.take_over:.1f} s"
        times = f"{self.pause:.1f} s | {max(0.0, self.over):.1f} s | {self.slowness:.1f}"
        return f"| {self.victim} | {self.what} | {taken} | {times} |"


@dataclass
class Result:
    """Everything that was seen."""

    outcomes: list[Outcome] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    forgotten: int = 0
    """Events that Kafka had confirmed and lost, which the pipelines refused to pass over in silence."""
    accepted: int = 0
    deliveries: int = 0
    counted: float = 0.0
    """Deliveries that /metrics of the pipelines count."""
    refused: dict[str, int] = field(default_factory=dict)
    restarted: list[str] = field(default_factory=list)
    """Roles that ended although nothing was done to them, such as one that could not renew its claim."""
    left_out: list[str] = field(default_factory=list)
    """What this machine does not allow."""
    seconds: float = 0.0
    start_seconds: float = 0.0

    @property
    def broken(self) -> list[str]:
        """Which promises were. Times count where the machine was quick enough; losing nothing counts everywhere."""
        kinds: dict[str, Sequence[object]] = {
            "lost": self.findings.lost,
            "where they do not belong": self.findings.strangers,
            "out of order": self.findings.misordered,
        }
        found = [
            f"{len(events)} events {what}, such as {', '.join(map(str, events[:SHOWN]))}"
            for what, events in kinds.items()
            if events
        ]
        if self.deliveries and not self.counted:
            found.append("/metrics of the pipelines counts no deliveries")
        return [*found, *(text for one in self.outcomes if one.slowness <= yardstick.QUICK for text in one.too_long)]

    @property
    def excused(self) -> list[str]:
        """Times beyond their bounds on a machine that was too slow for them."""
        return [text for one in self.outcomes if one.slowness > yardstick.QUICK for text in one.too_long]


def markdown(result: Result) -> str:
    """The figures."""
    again = sum(result.findings.duplicates.values())
    refused = ", ".join(f"{name}: {count:,}" for name, count in sorted(result.refused.items())) or "none"
    lines = [
        *machine({"date": time.strftime("%Y-%m-%d")}),
        "",
        HEAD,
        *(one.row for one in result.outcomes),
        "",
        f"{result.accepted:,} events accepted, {result.deliveries:,} deliveries; lost {len(result.findings.lost)}, "
        f"out of order {len(result.findings.misordered)}, delivered again {again:,}.",
        *([f"Confirmed by Kafka and lost by it: {result.forgotten:,}."] if result.forgotten else []),
        f"Attempts to send that were not accepted, and repeated: {refused}.",
        f"Roles that ended by themselves, and were started again: {', '.join(result.restarted) or 'none'}.",
        f"Every route was Ready after {result.start_seconds:.0f} s; all of it took {result.seconds:.0f} s.",
        f"The column *machine*: a calculation took so many times as long as on an idle core of the reference. Up to "
        f"{yardstick.QUICK:g} a pause longer than {LONGEST_PAUSE_SECONDS:g} s fails the run.",
        *(f"Not counted, because the machine was too slow: {text}." for text in result.excused),
        *(f"LEFT OUT: {text}" for text in result.left_out),
    ]
    return "\n".join(lines)


def write(result: Result, folder: Path) -> None:
    """Leaves `report.json` and `report.md` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {"broken": result.broken, **asdict(result)}
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=2))
    (folder / "report.md").write_text(markdown(result) + "\n")
