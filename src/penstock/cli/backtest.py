"""`penstock backtest`: what a Trigger would have received, compared with what the current one receives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import (
    DataDirOption,
    JsonOption,
    KubeconfigOption,
    NamespaceOption,
    SinceOption,
    UntilOption,
)
from penstock.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from penstock.backtest.report import BacktestReport, EventCounts, TriggerResult
    from penstock.settings import Settings

NOT_AS_EXPECTED = 1
BAR = 30
MOST_ROWS = 48
"""Rows of a chart; a longer time is shown by day."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def backtest(
    *,
    file: Annotated[
        Path, typer.Option("--filename", "-f", help="Manifest with one or more Triggers; - is standard input.")
    ],
    since: SinceOption = "24h",
    until: UntilOption = None,
    namespace: NamespaceOption = None,
    expect: Annotated[
        list[str] | None, typer.Option(metavar="COUNT=N", help="Exit with 1 unless it holds: added=0, removed<=10.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, max=25, help="Events to show of those added and removed.")] = 5,
    as_json: JsonOption = False,
    data_dir: DataDirOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Try a Trigger on past events: how many it would match, and which the current one does not, or the reverse."""
    import json
    from datetime import UTC, datetime

    from penstock.backtest.report import Window, disappointments, read
    from penstock.cli.manifests import read_documents
    from penstock.cli.terminal import problems
    from penstock.operations import installation
    from penstock.operations.times import window

    with problems():
        expected = read(expect or ())
        now = datetime.now(UTC)
        begin, end = window(since, until, now=now)
        tried = Window(begin or now, end or now)
        documents = read_documents(file)
        settings = installation.find(data_dir, kubeconfig).kafka_settings("penstock backtest")
        report = _run(documents, tried, namespace or "default", samples, settings, quiet=as_json)
        if as_json:
            say(json.dumps(report.as_data(), indent=2))
        else:
            _print(report)
        disappointed = disappointments(report.results, expected)
        for line in disappointed:
            say(line, err=True)
    if disappointed:
        raise typer.Exit(NOT_AS_EXPECTED)


def _run(
    documents: list[Any], window: Any, namespace: str, samples: int, settings: Settings, *, quiet: bool
) -> BacktestReport:
    from rich.console import Console

    from penstock.backtest.run import backtest as run
    from penstock.backtest.run import open_events, routes_in_force
    from penstock.backtest.trials import trials_of
    from penstock.engine import java
    from penstock.engine.batch_session import batch_session
    from penstock.engine.jars import jar_cache

    trials = trials_of(documents, routes_in_force(settings), settings, namespace)
    found = jar_cache.resolve(settings, java.find_java())
    working = Console(stderr=True, quiet=quiet).status("reading past events")
    with working, batch_session(settings, found) as spark:
        return run(open_events(spark, settings), trials, window, samples)


def _print(report: BacktestReport) -> None:
    from penstock.cli.terminal import console
    from penstock.runtime.times import rfc3339

    say = console().print
    for result in report.results:
        _print_result(result)
        say()
    rate = f", {report.events / report.seconds:,.0f} a second" if report.seconds and report.events else ""
    say(
        f"{report.events:,} events from {rfc3339(report.window.since)} to {rfc3339(report.window.until)} "
        f"in {report.seconds:.1f} s{rate}"
    )


def _print_result(result: TriggerResult) -> None:
    from rich.markup import escape

    from penstock.cli.terminal import console

    trial, total = result.trial, result.total
    say = console().print
    say(f"[bold]Trigger {escape(trial.namespace)}/{escape(trial.name)}[/bold] of Broker {escape(trial.broker)}")
    beside = (
        f"; the current Trigger matched {total.present:,}" if trial.present else "; no Trigger of that name exists yet"
    )
    say(f"would have matched {total.matched:,} of {total.events:,} events{beside}: ", end="")
    say(f"[green]{total.added:,} added[/green], [red]{total.removed:,} removed[/red]")
    if result.hours:
        say(_chart(result))
    for word, offsets, colour in (("added", result.added, "green"), ("removed", result.removed, "red")):
        for offset in offsets:
            if (sample := result.samples.get(offset)) is not None:
                subject = f" subject {sample.subject}" if sample.subject else ""
                text = f"{sample.arrival:%Y-%m-%d %H:%M:%S} {sample.type} {sample.id} from {sample.source}{subject}"
                say(f"  [{colour}]{word}[/{colour}] {escape(text)}")


def _chart(result: TriggerResult) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading, side in (("", "left"), ("", "left"), ("new", "right"), ("current", "right")):
        table.add_column(heading, no_wrap=True, justify=side)  # type: ignore[arg-type]  # both are known words
    table.add_column("added", no_wrap=True, justify="right", style="green")
    table.add_column("removed", no_wrap=True, justify="right", style="red")
    rows = rows_of(result.hours, MOST_ROWS)
    most = max((max(counts.matched, counts.present) for _, counts in rows), default=0)
    for label, counts in rows:
        numbers = (counts.matched, counts.present, counts.added, counts.removed)
        table.add_row(label, bar(counts.matched, most, BAR), *(f"{number:,}" if number else "" for number in numbers))
    return table


def bar(value: int, most: int, width: int) -> str:
    """A bar whose length is the value's share of the largest; a value above zero is always visible."""
    eighths = max(round(value * width * 8 / most), 1) if value else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def rows_of(hours: Mapping[datetime, EventCounts], most: int) -> list[tuple[str, EventCounts]]:
    """Labels and counts by hour, or by day where that would be too many rows."""
    if len(hours) <= most:
        return [(f"{hour:%m-%d %H:%M}", counts) for hour, counts in hours.items()]
    days: dict[str, EventCounts] = {}
    for hour, counts in hours.items():
        day = f"{hour:%Y-%m-%d}"
        days[day] = days[day] + counts if day in days else counts
    return list(days.items())
