"""`penstock status`: each component of the stack of a data folder, and the routes that are behind, the worst first."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from penstock.cli.installation import DataDirOption, JsonOption
from penstock.cli.tables import count, duration, lines_of

METRICS = "metrics"
"""Where in the data folder the processes keep their numbers."""
ROUTES_SHOWN = 10
COLUMNS = ("component", "state", "address", "pid", "MiB", "uptime", "restarts", "lag")
NUMBERS = ("pid", "MiB", "uptime", "restarts", "lag")


def status(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show what runs: component, state, address, pid, memory, uptime, restarts; and which routes are behind."""
    import json

    from penstock.cli.installation import of_stack, running_folder
    from penstock.cli.terminal import problems
    from penstock.engine import datadir

    with problems():
        root = of_stack(running_folder(data_dir)).root or Path()
        stack = datadir.read_stack(root) or {"components": {}, "state": "unknown"}
        rows = [_row(name, entry) for name, entry in stack["components"].items()]
        behind = routes_behind(root / METRICS)
        if as_json:
            components = {row.pop("component"): row for row in rows}
            shown = {**stack, "data_dir": str(root), "components": components, "routes": behind}
            typer.echo(json.dumps(shown, indent=2))
            return
        for line in lines_of(COLUMNS, [_cells(row) for row in rows], NUMBERS):
            typer.echo(line)
        for problem in problems_of(rows):
            typer.echo(f"\n{problem}")
        _print_routes(behind)
        total = sum(row["memory_mib"] or 0 for row in rows)
        typer.echo(f"\nstack {stack['state']}, {total} MiB in all, data in {root}")


def problems_of(rows: list[dict[str, Any]]) -> list[str]:
    """What keeps a component from doing all of its work although it runs."""
    return [
        f"{row['component']}: {value}"
        for row in rows
        for key, value in row["details"].items()
        if key.endswith("problem") and value
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["component"],
        row["state"],
        (row["address"] or "").partition("://")[2] or row["address"] or "",
        str(row["pid"] or ""),
        str(row["memory_mib"] or ""),
        duration(row["uptime_seconds"]) if row["pid"] else "",
        str(row["restarts"]),
        "" if row["lag"] is None else count(row["lag"]),
    ]


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
    if not behind:
        unknown = "metrics are off: how far routes are behind is not known"
        typer.echo(f"\n{unknown if behind is None else 'no route is behind'}")
        return
    typer.echo()
    shown = [
        (
            str(route["lag"]),
            duration(route["oldest_seconds"]),
            f"{route['kind'].lower()} {route['namespace']}/{route['name']}",
        )
        for route in behind[:ROUTES_SHOWN]
    ]
    for line in lines_of(("behind", "oldest", "route"), shown, ("behind", "oldest")):
        typer.echo(line)
    rest = len(behind) - ROUTES_SHOWN
    if rest > 0:
        events = sum(route["lag"] for route in behind[ROUTES_SHOWN:])
        typer.echo(f"and {rest} more routes with {events} events; penstock status --json lists them")


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
