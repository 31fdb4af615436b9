"""What a run has shown: for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tools.benchmarks import charts
from tools.benchmarks.report import between, between_marks, machine
from tools.chaos.memory import MIB, WARM_UP_SECONDS, usages
from tools.chaos.plan import VICTIMS, Way
from tools.chaos.process_faults import PROCESSES
from tools.chaos.results import SOAK, Outcome, Result

BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
ROWS_BEGIN, ROWS_END = "<!-- single faults: begin -->", "<!-- single faults: end -->"
"""Between these is a table to which each experiment adds its rows."""
SOAK_BEGIN, SOAK_END = "<!-- soak: begin -->", "<!-- soak: end -->"
MEMORY_CHART = "memory.svg"
SOAK_CHART = "pictures/soak-memory.svg"
"""Beside the page."""
HEAD = """| fault | what was done | recovery | silence | accepted | lost | reported | out of order | again | on |
|---|---|---|---|---|---|---|---|---|---|"""
SHOWN = 20
"""Findings of a kind that are listed."""


def write(result: Result, folder: Path) -> None:
    """Leaves `report.json` and `report.md` in the folder; for a single fault they are named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "report" if result.experiment in (PROCESSES, SOAK) else result.experiment
    if result.memory:
        (folder / MEMORY_CHART).write_text(memory_chart(result))
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(as_json(result)), indent=2))
    (folder / f"{name}.md").write_text(markdown(result) + "\n")


def publish(result: Result, page: Path) -> None:
    """Puts the figures between the marks of the page; those of a single fault in place of its former ones."""
    if result.experiment == PROCESSES:
        between_marks(page, BEGIN, END, markdown(result))
        return
    if result.experiment == SOAK:
        (page.parent / SOAK_CHART).write_text(memory_chart(result))
        chart = f"![memory of each process over the run]({SOAK_CHART})"
        between_marks(page, SOAK_BEGIN, SOAK_END, f"{markdown(result)}\n\n{chart}")
        return
    former = [line for line in between(page, ROWS_BEGIN, ROWS_END).splitlines()[2:] if line]
    others = [line for line in former if not line.startswith(f"| `{result.experiment}`")]
    rows = sorted([*others, *step_rows(result)], key=lambda line: line.split("|")[1])
    between_marks(page, ROWS_BEGIN, ROWS_END, "\n".join([HEAD, *rows]))


def as_json(result: Result) -> dict[str, Any]:
    """All that is known."""
    return {"passed": result.passed, **asdict(result), "recovery": summary(result.outcomes)}


def summary(outcomes: list[Outcome]) -> dict[str, dict[str, Any]]:
    """By victim and way, for faults that hit a stack which had recovered; the others are one group."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        name = "during another's recovery" if outcome.fault.hurried else f"{outcome.fault.victim}, {outcome.fault.way}"
        groups.setdefault(name, []).append(outcome)
    return {name: _figures(group) for name, group in sorted(groups.items(), key=lambda item: _place(item[0]))}


def _figures(group: list[Outcome]) -> dict[str, Any]:
    seconds = [outcome.recovery for outcome in group if outcome.recovery is not None]
    silences = [outcome.silence for outcome in group if outcome.silence is not None]
    return {
        "faults": len(group),
        "p50": median(seconds) if seconds else None,
        "worst": max(seconds, default=None),
        "silence": max(silences, default=None),
    }


def _place(name: str) -> tuple[int, int]:
    victim, _, way = name.partition(", ")
    ways = list(Way)
    return (VICTIMS.index(victim), ways.index(Way(way))) if victim in VICTIMS else (len(VICTIMS), 0)


def markdown(result: Result) -> str:
    """The figures as a page's section."""
    if result.experiment == SOAK:
        return soak(result)
    if result.experiment != PROCESSES:
        return single(result)
    lines = [
        *machine({"date": time.strftime("%Y-%m-%d")}),
        "",
        f"Seed {result.seed}, {result.rate:g} events a second, {len(result.outcomes)} faults "
        f"in {result.seconds / 60:.0f} minutes.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in totals(result)),
        "",
        "Seconds from a fault to the first delivery of an event accepted after it; longest time without any delivery:",
        "",
        "| victim | way | faults | p50 | worst | silence |",
        "|---|---|---|---|---|---|",
        *(_row(name, figures) for name, figures in summary(result.outcomes).items()),
    ]
    return "\n".join(lines)


def single(result: Result) -> str:
    """The figures of an experiment."""
    refused = ", ".join(f"{name}: {count:,}" for name, count in sorted(result.refused.items())) or "none"
    lines = [
        *machine({"date": time.strftime("%Y-%m-%d")}),
        "",
        f"Seed {result.seed}, {result.rate:g} events a second, {result.seconds / 60:.1f} minutes; "
        f"{result.deliveries:,} deliveries, {result.changed:,} route changes. "
        f"Attempts to send that were not accepted: {refused}. The supervisor ended by itself {result.gave_up} times.",
        "",
        HEAD,
        *step_rows(result),
        *(["", *(f"- {step.what}: {step.seen}" for step in result.steps if step.seen)]),
    ]
    return "\n".join(lines)


def soak(result: Result) -> str:
    """The figures of hours under a modest load."""
    rows = [
        f"| {one.at / 60:.0f} min | {one.what} | {_seconds(one.recovery)} | {_seconds(one.silence)} | {one.seen} |"
        for one in result.steps
    ]
    lines = [
        *machine({"date": time.strftime("%Y-%m-%d")}),
        "",
        f"Seed {result.seed}, {result.rate:g} events a second, {result.seconds / 60:.0f} minutes.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in totals(result)),
        f"| route changes of all kinds | {result.changed:,} |",
        f"| Replays | {result.replays} |",
        "",
        "| after | what was ended, and how | recovery | silence | shown |",
        "|---|---|---|---|---|",
        *rows,
        *memory_table(result),
    ]
    return "\n".join(lines)


def memory_table(result: Result) -> list[str]:
    """What the processes took, by role."""
    rows = [
        f"| {one.role} | {one.first:,.0f} | {one.last:,.0f} | {one.most:,.0f} | "
        f"{'' if one.slope is None else f'{one.slope:+,.1f}'} |"
        for one in usages(result.memory)
    ]
    return [
        "",
        f"MiB of memory (PSS) by what the processes do; the slope within their lives, without the first "
        f"{WARM_UP_SECONDS / 60:g} minutes of each:",
        "",
        "| process | first | last | most | slope per hour |",
        "|---|---|---|---|---|",
        *rows,
    ]


def memory_chart(result: Result) -> str:
    """The same over time."""
    series = {role: [(one.at / 60, one.bytes / MIB) for one in taken] for role, taken in result.memory.items()}
    return charts.lines(series, "minutes", "MiB")


def step_rows(result: Result) -> list[str]:
    """A row for each step; what counts for the whole run is in the first."""
    found = result.findings
    again = sum(found.duplicates.values())
    whole = [
        *(f"{count:,}" for count in (result.accepted, len(found.lost), result.reported, len(found.misordered), again)),
        time.strftime("%Y-%m-%d"),
    ]
    return [
        f"| `{result.experiment}` | {step.what} | {_seconds(step.recovery)} | {_seconds(step.silence)} | "
        f"{' | '.join(whole if step is result.steps[0] else [''] * len(whole))} |"
        for step in result.steps
    ]


def _seconds(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.1f} s"


def totals(result: Result) -> list[tuple[str, str]]:
    """The figures of the run as a whole."""
    found, ready = result.findings, result.changes
    changes = f"{len(ready)}, Ready after {median(ready):.1f} s (p50), {max(ready):.1f} s (worst)" if ready else "none"
    refused = ", ".join(f"{name}: {count:,}" for name, count in sorted(result.refused.items())) or "none"
    return [
        ("events accepted", f"{result.accepted:,}"),
        ("deliveries", f"{result.deliveries:,}"),
        ("lost", f"{len(found.lost):,}"),
        ("at a route they do not match", f"{len(found.strangers):,}"),
        ("out of order", f"{len(found.misordered):,}"),
        ("delivered again", f"{sum(found.duplicates.values()):,}"),
        ("attempts to send that were not accepted, and repeated", refused),
        ("events that needed more than one attempt to send", f"{result.resent:,}"),
        ("routes created and filters changed", changes),
        ("the supervisor gave up a component hit too often", f"{result.gave_up}"),
    ]


def _row(name: str, figures: dict[str, Any]) -> str:
    victim, _, way = name.partition(", ")
    numbers = " | ".join("" if figures[key] is None else f"{figures[key]:.1f}" for key in ("p50", "worst", "silence"))
    return f"| {victim} | {way} | {figures['faults']} | {numbers} |"


def failures(result: Result) -> list[str]:
    """What is wrong, with ids, routes and trails."""
    found = result.findings
    lines = list(result.problems)
    for lost in found.lost[:SHOWN]:
        lines.append(f"LOST: event {lost.id} did not reach {lost.subscriber}")
        lines += [f"    {line}" for line in result.trails.get(lost.id, [])]
    lines += [f"STRANGER: event {one.id} at {one.subscriber} {one.why}" for one in found.strangers[:SHOWN]]
    lines += [
        f"OUT OF ORDER: {one.subscriber} was offered {one.after} of {one.key} before it took {one.before}"
        for one in found.misordered[:SHOWN]
    ]
    beyond = sum(max(0, len(kind) - SHOWN) for kind in (found.lost, found.strangers, found.misordered))
    return [*lines, f"… and {beyond} more"] if beyond else lines
