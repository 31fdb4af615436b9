"""The table and the chart of docs/benchmarks.md, made from what was measured."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import psutil

from tools.benchmarks.charts import svg
from tools.benchmarks.scenarios import SCENARIOS

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(results: dict[str, Any], page: Path | None) -> None:
    """Prints the table; puts it between the marks of the page where one is given."""
    text = "\n".join([*machine(results), "", *table(results), "", *others(results)])
    print(text)
    if page is None:
        return
    chart = page.with_name("benchmarks.svg")
    chart.write_text(bars(results))
    between_marks(page, BEGIN, END, f"{text}\n\n![rates of penstock and Knative](benchmarks.svg)")


def between_marks(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what is between the marks of a page."""
    head, _, rest = page.read_text().partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


def between(page: Path, begin: str, end: str) -> str:
    """What is between the marks of a page."""
    return page.read_text().partition(begin)[2].partition(end)[0].strip()


def machine(results: dict[str, Any]) -> list[str]:
    """Where, when and with what."""
    memory = psutil.virtual_memory().total / 2**30
    return [
        f"Measured on {results['date']}: {os.cpu_count()} cores ({processor()}), {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {sys.version.split()[0]}; load generator and subscribers on the same cores.",
    ]


def processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def table(results: dict[str, Any]) -> list[str]:
    """A row per scenario, upstream's columns beside penstock's."""
    lines = [
        "| scenario | accepted/s | delivered/s | p50 ms | p99 ms | lost | twice "
        "| Knative delivered/s | p50 ms | p99 ms | lost |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        ours, theirs = results["penstock"].get(scenario.name), results["knative"].get(scenario.name)
        if ours is None:
            continue
        mine = cells(ours, "accepted_per_second", "delivered_per_second", *LATENCY, "lost", "duplicates")
        peer = cells(theirs or {}, "delivered_per_second", *LATENCY, "lost")
        lines.append(f"| {scenario.what} | {' | '.join(mine + peer)} |")
    return lines


LATENCY = ("send_to_receive.p50_ms", "send_to_receive.p99_ms")


def cells(figures: dict[str, Any], *keys: str) -> list[str]:
    """Figures as text; empty where there is none."""
    return [_cell(figures, key) for key in keys]


def _cell(figures: dict[str, Any], key: str) -> str:
    if key not in figures:
        return ""
    return f"{figures[key]:,.1f}" if key.endswith("ms") else f"{figures[key]:,.0f}"


def others(results: dict[str, Any]) -> list[str]:
    """Scenarios with figures of their own."""
    named = {scenario.name for scenario in SCENARIOS}
    lines = ["| scenario | figures |", "|---|---|"]
    for name, figures in results["penstock"].items():
        if name in named:
            continue
        shown = ", ".join(
            f"{key.replace('_', ' ')} {number(value)}"
            for key, value in figures.items()
            if not isinstance(value, list | dict)
        )
        lines.append(f"| {name} | {shown} |")
    return lines


def number(value: float) -> str:
    """A figure with as many digits as it deserves."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def bars(results: dict[str, Any]) -> str:
    """Delivered events a second, penstock's bar above upstream's."""
    rows = [
        (s.what, results["penstock"][s.name], results["knative"].get(s.name, {}))
        for s in SCENARIOS
        if s.figure == "delivered_per_second" and s.name in results["penstock"]
    ]
    top = max([row[1].get("delivered_per_second", 0) for row in rows] + [1])
    parts = []
    for i, (what, ours, theirs) in enumerate(rows):
        y = 20 + i * 46
        parts.append(f'<text x="10" y="{y + 18}">{what}</text>')
        for j, (figures, colour) in enumerate(((ours, "#2f6f8f"), (theirs, "#b9bec2"))):
            value = figures.get("delivered_per_second")
            if value is not None:
                width = 420 * value / top
                parts.append(f'<rect x="330" y="{y + j * 16}" width="{width:.0f}" height="14" fill="{colour}"/>')
                parts.append(f'<text x="{335 + width:.0f}" y="{y + 12 + j * 16}" font-size="11">{value:,.0f}/s</text>')
    height = 30 + len(rows) * 46
    return svg(860, height, parts)
