"""`penstock top`: rates, latencies and lag of the routes, in a table that refreshes itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import DataDirOption, JsonOption
from penstock.cli.output import say

if TYPE_CHECKING:
    from penstock.operations.route_rates import RouteRow

HEADINGS = ("/s", "fail/s", "p50 ms", "p99 ms", "lag", "oldest", "route")
NUMBERS = HEADINGS[:-1]
SECONDS = 2.0


def top(
    *,
    sort: Annotated[str, typer.Option("--sort", help="rate, latency, lag, failures or name.")] = "lag",
    once: Annotated[bool, typer.Option("--once", help="Print the table once, after two seconds.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two updates.")] = SECONDS,
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="URL of the metrics. (default: those of the stack that runs here)")
    ] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show for each route: deliveries and failures per second, latency and lag.

    Keys: r, p, l, f and n sort by rate, latency (p99), lag, failures and name; q quits.
    """
    import json

    from penstock.cli.table_screen import run
    from penstock.cli.terminal import problems
    from penstock.operations.metrics_client import MetricsSamples
    from penstock.operations.route_rates import SORTS
    from penstock.runtime.errors import UserError

    with problems():
        if sort not in SORTS:
            raise UserError(f"Invalid --sort {sort}: expected one of {', '.join(SORTS)}.", exit_code=2)
        samples = MetricsSamples(metrics, data_dir)
        if not (once or as_json) and sys.stdout.isatty() and sys.stdin.isatty():
            run(samples, sort, every, lines)
            return
        rows = sorted(samples.rows(every), key=SORTS[sort])
        if as_json:
            say(json.dumps([as_object(row) for row in rows], indent=2))
        else:
            say("\n".join(lines(rows)))


def lines(rows: list[RouteRow]) -> list[str]:
    """The table."""
    from penstock.cli.output import lines_of
    from penstock.operations.formatting import count, duration

    cells = [
        (
            count(row.rate) if row.rate >= 10 else f"{row.rate:.1f}",
            count(row.failures) if row.failures >= 10 else f"{row.failures:.1f}",
            _milliseconds(row.p50),
            _milliseconds(row.p99),
            count(row.lag),
            duration(row.oldest) if row.oldest else "",
            row.route.text + (" unreachable" if row.unreachable else ""),
        )
        for row in rows
    ]
    return lines_of(HEADINGS, cells, NUMBERS)


def as_object(row: RouteRow) -> dict[str, Any]:
    """A row for programs."""
    return {
        **row.route._asdict(),
        "deliveries_per_second": round(row.rate, 3),
        "failures_per_second": round(row.failures, 3),
        "p50_seconds": row.p50,
        "p99_seconds": row.p99,
        "lag": row.lag,
        "outstanding": row.outstanding,
        "oldest_seconds": round(row.oldest, 1),
        "dropped": row.dropped,
        "unreachable": row.unreachable,
    }


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f}"
