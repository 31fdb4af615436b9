"""`penstock status`: each component of the stack of a data folder, with its address, pid, memory and uptime."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from penstock.cli.options import DataDirOption


def status(
    data_dir: DataDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Show what runs: component, state, address, pid, memory, uptime, restarts, lag."""
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
        if as_json:
            typer.echo(json.dumps({**stack, "components": {row.pop("component"): row for row in rows}}, indent=2))
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading in ("component", "state", "address", "pid", "memory", "uptime", "restarts", "lag"):
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
        total = sum(row["memory_mib"] or 0 for row in rows)
        console().print(f"stack {stack['state']}, {total} MiB in all, data in {root}")


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
