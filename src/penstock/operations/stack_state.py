"""The state of a stack on this machine: its components, full disks, and routes with waiting events."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from penstock.operations.installation import Installation
from penstock.runtime.errors import UserError
from penstock.settings import Settings

MIB = 2**20
METRICS = "metrics"
"""Folder of the metrics in the data folder."""


def component_rows(stack: dict[str, Any]) -> list[dict[str, Any]]:
    """The components of a record of `run/stack.json`, with memory and uptime of their processes."""
    return [_row(name, entry) for name, entry in stack["components"].items()]


def problems_of(rows: list[dict[str, Any]]) -> list[str]:
    """Problems that running components report."""
    return [
        f"{row['component']}: {value}"
        for row in rows
        for key, value in row["details"].items()
        if key.endswith("problem") and value
    ]


def disk_problems(settings: Settings) -> list[str]:
    """Disks of the stack with so little free space that events are refused. Measured here, because with a full disk
    the components cannot record it in `run/stack.json`.
    """
    if settings.kafka is not None or not settings.min_free_disk_mib:
        return []
    folders = [folder for folder in (settings.embedded_kafka_dir, settings.data_dir) if folder.exists()]
    disks = {folder.stat().st_dev: folder for folder in folders}
    free = {folder: shutil.disk_usage(folder).free // MIB for folder in disks.values()}
    return [
        f"disk: {mib} MiB free in {folder}. Below {settings.min_free_disk_mib} MiB (min_free_disk_mib) events are "
        "refused with 507; accepted events wait. Free some space"
        for folder, mib in free.items()
        if mib < settings.min_free_disk_mib
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


def failing_routes(installation: Installation) -> list[str] | None:
    """Triggers and Subscriptions whose deliveries fail, as KIND/NAMESPACE/NAME; None where the API is unreachable."""
    from penstock.operations.cluster_api import ROUTES
    from penstock.resources.conditions import find
    from penstock.resources.delivery_status import DELIVERING

    try:
        with installation.api() as api:
            routes = [obj for resource in ROUTES for obj in api.all(resource)]
    except UserError:
        return None
    return sorted(
        f"{obj['kind'].lower()}/{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        for obj in routes
        if ((find((obj.get("status") or {}).get("conditions"), DELIVERING)) or {}).get("status") == "False"
    )


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
    """Events waiting in the component, summed over its parts; None if it has no lag."""
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
    return int(total // MIB)
