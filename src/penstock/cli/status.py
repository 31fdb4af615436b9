"""`penstock status`, `doctor` and `version`: the components of a running stack and its slowest routes, what this
machine lacks for running one, and the versions.
"""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import typer

from penstock.cli.options import DataDirOption, JsonOption, SetOption, StartDataDirOption
from penstock.cli.output import lines_of, say
from penstock.operations.formatting import count, duration

ROUTES_SHOWN = 10
COLUMNS = ("component", "state", "address", "pid", "MiB", "uptime", "restarts", "lag")
NUMBERS = ("pid", "MiB", "uptime", "restarts", "lag")


def status(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show the components (state, address, pid, memory, uptime, restarts) and the routes with waiting events."""
    import json

    from penstock.cli.terminal import problems
    from penstock.engine import datadir
    from penstock.operations.installation import of_stack, running_folder
    from penstock.operations.stack_state import (
        METRICS,
        component_rows,
        disk_problems,
        failing_routes,
        problems_of,
        routes_behind,
    )

    with problems():
        installation = of_stack(running_folder(data_dir))
        root = installation.root or Path()
        stack = datadir.read_stack(root) or {"components": {}, "state": "unknown"}
        rows = component_rows(stack)
        behind = routes_behind(root / METRICS)
        failing = failing_routes(installation)
        full = disk_problems(datadir.load_settings(root / datadir.SETTINGS_FILE))
        if as_json:
            components = {row.pop("component"): row for row in rows}
            shown = {**stack, "data_dir": str(root), "components": components, "routes": behind, "failing": failing}
            shown["disk"] = full
            say(json.dumps(shown, indent=2))
            return
        for line in lines_of(COLUMNS, [_cells(row) for row in rows], NUMBERS):
            say(line)
        for problem in (*problems_of(rows), *full):
            say(f"\n{problem}")
        _print_routes(behind)
        for line in failing_lines(failing):
            say(line)
        total = sum(row["memory_mib"] or 0 for row in rows)
        say(f"\nstack {stack['state']}, {total} MiB in all, data in {root}")
        if files := stack.get("kafka_client_files"):
            say(f"to connect to Kafka: kcat -F {files['librdkafka']}")
            say(f"                     Java's tools: --bootstrap-server {stack['bootstrap']}, with {files['java']}")


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


def failing_lines(failing: list[str] | None) -> list[str]:
    """How many routes fail, and where the reasons are."""
    if failing is None:
        return ["the API is unreachable: which routes fail is not known"]
    if not failing:
        return ["no route fails"]
    return [f"{len(failing)} route{' fails' if len(failing) == 1 else 's fail'}; the reasons: penstock lag"]


def _print_routes(behind: list[dict[str, Any]] | None) -> None:
    if not behind:
        unknown = "metrics are off: the lag of routes is unknown"
        say(f"\n{unknown if behind is None else 'no events are waiting'}")
        return
    say()
    shown = [
        (
            str(route["lag"]),
            duration(route["oldest_seconds"]),
            f"{route['kind'].lower()} {route['namespace']}/{route['name']}",
        )
        for route in behind[:ROUTES_SHOWN]
    ]
    for line in lines_of(("behind", "oldest", "route"), shown, ("behind", "oldest")):
        say(line)
    rest = len(behind) - ROUTES_SHOWN
    if rest > 0:
        events = sum(route["lag"] for route in behind[ROUTES_SHOWN:])
        say(f"and {rest} more routes with {events} waiting events; penstock status --json lists them")


def doctor(data_dir: StartDataDirOption = None, assignments: SetOption = None) -> None:
    """Check Python, Java, jars, ports, disk and memory, and show how to fix what is wrong."""
    from penstock.cli.terminal import console, problems
    from penstock.engine import checkup
    from penstock.operations.settings_sources import load

    with problems():
        findings = checkup.examine(load(assignments, data_dir=data_dir))
    out = console()
    marks = {"good": "[green]ok[/green]  ", "note": "[yellow]note[/yellow]", "bad": "[red]bad[/red] "}
    for finding in findings:
        out.print(f"{marks[finding.verdict]} ", end="")
        out.print(f"{finding.subject}: {finding.text}", markup=False)
        if finding.remedy:
            out.print(f"       {finding.remedy}", markup=False)
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(1)


def version() -> None:
    """Print the versions of penstock, Python and Spark."""
    typer.echo(f"penstock {version_of('penstock')} (Python {platform.python_version()}, Spark {version_of('pyspark')})")


def print_version_and_exit(wanted: bool) -> None:
    """Callback of `--version`."""
    if wanted:
        version()
        raise typer.Exit
