"""`/stack`: components, memory, restarts, versions; and the end of each log."""

from __future__ import annotations

import platform
from collections import deque
from importlib import metadata
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.console.console import Console, console_of
from penstock.console.pages import fragment, render
from penstock.engine import datadir
from penstock.engine.processes.child_logs import readable
from penstock.operations.stack_state import component_rows, disk_problems, problems_of
from penstock.settings import Settings

LINES = 200
"""Lines of a log that are shown."""
READ_BYTES = 256 * 1024
"""Bytes read from the end of a log."""
LIBRARIES = ("penstock", "pyspark", "confluent-kafka", "starlette", "uvicorn", "deltalake", "duckdb")


def show(request: Request) -> Response:
    """The page."""
    console = console_of(request)
    console.only_operators(request)
    values = {"versions": versions(), "facts": facts(console.settings)}
    return render(request, "stack/stack.html", title="Stack", **_values(console), **values)


def components(request: Request) -> Response:
    """The table of components alone, for the script that refreshes it."""
    console = console_of(request)
    console.only_operators(request)
    return fragment("stack/components.html", **_values(console))


def _values(console: Console) -> dict[str, Any]:
    stack = datadir.read_stack(console.settings.data_dir) or {"components": {}, "state": "unknown"}
    rows = component_rows(stack)
    return {
        "state": stack["state"],
        "rows": rows,
        "problems": problems_of(rows) + disk_problems(console.settings),
        "memory": sum(row["memory_mib"] or 0 for row in rows),
        "logs": [file.name.removesuffix(".log") for file in log_files(console.settings)],
    }


def log(request: Request) -> Response:
    """The end of a component's log."""
    console = console_of(request)
    console.only_operators(request)
    name = request.path_params["component"]
    files = {file.name.removesuffix(".log"): file for file in log_files(console.settings)}
    if name not in files:
        raise HTTPException(404)
    lines = [(_level(line), readable(line)) for line in last_lines(files[name], LINES)]
    wanted = request.query_params.get("q", "").lower()
    shown = [line for line in lines if wanted in line[1].lower()]
    return render(
        request, "stack/log.html", title=f"Log of {name}", component=name, lines=shown, file=files[name], query=wanted
    )


def log_files(settings: Settings) -> list[Path]:
    """The logs of this stack's components; nothing else of the folder is shown."""
    return sorted(file for file in (settings.data_dir / "logs").glob("*.log") if file.is_file())


def last_lines(file: Path, count: int) -> list[str]:
    """The end of a file, however long it is."""
    with file.open("rb") as stream:
        stream.seek(0, 2)
        begin = max(0, stream.tell() - READ_BYTES)
        stream.seek(begin)
        text = stream.read().decode("utf-8", "replace")
    lines = text.splitlines()
    return list(deque(lines[1:] if begin else lines, maxlen=count))


def _level(line: str) -> str:
    for level in ("error", "critical", "warning"):
        if f'"level": "{level}"' in line or f'"level":"{level}"' in line:
            return "bad" if level != "warning" else "warn"
    return ""


def versions() -> list[tuple[str, str]]:
    """Versions of penstock, its libraries and the system."""
    found = [("Python", platform.python_version())]
    for library in LIBRARIES:
        try:
            found.append((library, metadata.version(library)))
        except metadata.PackageNotFoundError:
            continue
    return [*found, ("system", f"{platform.system()} {platform.release()} {platform.machine()}")]


def facts(settings: Settings) -> list[tuple[str, str]]:
    """Addresses and folders."""
    return [
        ("Events", settings.ingress_url),
        ("Kubernetes API", str(settings.kubeconfig or settings.api_url)),
        ("Kafka", settings.bootstrap),
        ("Metrics", f"http://{settings.host}:{settings.metrics_port}/metrics" if settings.metrics else "off"),
        ("History", "on" if settings.history else "off"),
        ("Data folder", str(settings.data_dir)),
    ]


ROUTES = [
    Route("/stack", show),
    Route("/stack/components", components),
    Route("/stack/logs/{component}", log),
]
