"""`penstock status`: each component of the stack of a data folder, and the routes that are behind, the worst first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.options import DataDirOption

METRICS = "metrics"
"""Where in the data folder the processes keep their numbers."""
ROUTES_SHOWN = 10


def status(
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show what runs: component, state, address, pid, memory, uptime, restarts; and which routes are behind."""
    import json

    from penstock.cli.settings_sources import load
    from penstock.cli.terminal import console, problems
    from penstock.engine import datadir
    from penstock.engine.problem import Problem

    with problems():
        root = load(data_dir=data_dir).data_dir.expanduser().absolute()
        stack = datadir.read_stack(root)
        if stack is None or not datadir.runs(root):
            raise Problem(f"No stack runs on the data folder {root}.", "Start one: penstock dev")
        rows = [_row(name, entry) for name, entry in stack["components"].items()]
        behind = routes_behind(root / METRICS)
        if as_json:
            components = {row.pop("component"): row for row in rows}
            typer.echo(json.dumps({**stack, "components": components, "routes": behind}, indent=2))
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading in ("component", "state", "address", "pid", "memory", "uptime", "restarts", "to route"):
            table.add_column(heading, no_wrap=True)
        for row in rows:
            table.add_row(
                *(row["component"], row["state"], row["address"] or "", str(row["pid"] or "")),
                f"{row['memory_mib']} MiB" if row["memory_mib"] else "",
                _duration(row["uptime_seconds"]) if row["pid"] else "",
                str(row["restarts"]),
                "" if row["lag"] is None else str(row["lag"]),
            )
        console().print(table)
        _print_routes(behind)
        total = sum(row["memory_mib"] or 0 for row in rows)
        console().print(f"stack {stack['state']}, {total} MiB in all, data in {root}")


def routes_behind(metrics: Path) -> list[dict[str, Any]] | None:
    """Triggers and Subscriptions that have not finished all their events, the worst first; None without metrics."""
    from penstock.observability.exposition import SharedMetrics
    from penstock.observability.metrics import LAG, OLDEST

    if not any(metrics.glob("*.db")):
        return None
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for metric in SharedMetrics(metrics).collect():
        if metric.name in (LAG.name, OLDEST.name):
            for sample in metric.samples:
                labels = sample.labels
                route = found.setdefault((labels["kind"], labels["namespace"], labels["name"]), {})
                route[metric.name] = sample.value
    routes = [
        {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "lag": round(values.get(LAG.name, 0)),
            "oldest_seconds": round(values.get(OLDEST.name, 0), 1),
        }
        for (kind, namespace, name), values in found.items()
    ]
    behind = [route for route in routes if route["lag"]]
    return sorted(behind, key=lambda route: (-route["lag"], -route["oldest_seconds"], route["name"]))


def _print_routes(behind: list[dict[str, Any]] | None) -> None:
    from rich.table import Table

    from penstock.cli.terminal import console

    if not behind:
        unknown = "metrics are off: how far routes are behind is not known"
        console().print(f"\n{unknown if behind is None else 'no route is behind'}")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("route", "events behind", "oldest"):
        table.add_column(heading, no_wrap=True)
    for route in behind[:ROUTES_SHOWN]:
        name = f"{route['kind'].lower()} {route['namespace']}/{route['name']}"
        table.add_row(name, str(route["lag"]), _duration(round(route["oldest_seconds"])))
    console().print()
    console().print(table)
    rest = len(behind) - ROUTES_SHOWN
    if rest > 0:
        events = sum(route["lag"] for route in behind[ROUTES_SHOWN:])
        console().print(f"and {rest} more routes with {events} events; penstock status --json lists them")


def _row(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    details = dict(entry.get("details", {}))
    return {
        "component": name,
        "state": entry["state"],
        "address": details.pop("address", None) or details.pop("url", None),
        "pid": entry["pid"],
        "memory_mib": _memory(entry["pid"]),
        "uptime_seconds": round(time.time() - entry["created"]) if entry.get("created") else None,
        "restarts": entry["restarts"],
        "lag": _lag(details),
        "details": details,
    }


def _lag(details: dict[str, Any]) -> int | None:
    """Events that the component still has to deal with, over all its parts; None if it has no such thing."""
    lags = [value for key, value in details.items() if key.endswith("lag") and isinstance(value, int | float)]
    return round(sum(lags)) if lags else None


def _memory(pid: int | None) -> int | None:
    """Resident memory in MiB of a component and everything it started."""
    import psutil

    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return None
    total = 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.Error:
            continue
    return int(total // 2**20)


def _duration(seconds: int | None) -> str:
    minutes, rest = divmod(seconds or 0, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
