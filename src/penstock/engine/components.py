"""The Python components by name, and how each is run in its own process.

Rooms are imported by the process that runs them only, so that the ingress does not pay for Spark.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.lifecycle import Lifecycle
from penstock.settings import Settings

Run = Callable[[Settings, Lifecycle], Awaitable[None]]


def load_settings(path: Path) -> Settings:
    """The resolved settings as the supervisor wrote them; flags, environment and files were read there already."""
    return Settings(**json.loads(path.read_bytes()))


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of a component: the fast one where requests per second count."""
    if name.startswith(("ingress", "apiserver")):
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


async def run(name: str, settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Runs the component until it is told to stop. `released` is set when what it needs is ready."""
    match name.partition("-")[0]:
        case "apiserver":
            from penstock.apiserver.service import run as run_apiserver

            await run_apiserver(settings, lifecycle)
        case "ingress":
            from penstock.ingress.service import run as run_ingress

            # A name that outlives the process: one that was killed and restarted takes its own acknowledgement over.
            os.environ.setdefault("PENSTOCK_INSTANCE", f"{socket.gethostname()}-{name}")
            await run_ingress(settings, lifecycle)
        case "control":
            await _control(settings, lifecycle)
        case "pipeline":
            from penstock.engine import pipeline

            await pipeline.run(settings, lifecycle, released)
        case _:
            raise ValueError(f"there is no component {name!r}")


async def _control(settings: Settings, lifecycle: Lifecycle) -> None:
    """Controllers, and beside the embedded API the workloads that a cluster would run itself."""
    from penstock.controllers.service import run as run_controllers

    runs: dict[str, Run] = {"controllers": run_controllers}
    if settings.kubeconfig is None:
        from penstock.workloads.service import run as run_workloads

        runs["workloads"] = run_workloads
    await together(runs, settings, lifecycle)


async def together(runs: dict[str, Run], settings: Settings, lifecycle: Lifecycle) -> None:
    """Several components in one process: ready when all are, failed when one is."""
    parts = {name: Part(lifecycle) for name in runs}

    def heard() -> None:
        if all(part.is_ready for part in parts.values()):
            lifecycle.ready(**{key: value for part in parts.values() for key, value in part.details.items()})

    for part in parts.values():
        part.heard = heard

    async def one(name: str) -> None:
        await runs[name](settings, parts[name])
        if not lifecycle.stopping.is_set():
            raise RuntimeError(f"{name} ended without being told to")

    async with asyncio.TaskGroup() as group:
        for name in runs:
            group.create_task(one(name), name=name)


class Part(Lifecycle):
    """The lifecycle of one of several components in a process."""

    def __init__(self, whole: Lifecycle) -> None:
        super().__init__()
        self.stopping = whole.stopping
        self.is_ready = False
        self.details: dict[str, Any] = {}
        self.heard: Callable[[], None] = lambda: None
        self._whole = whole

    def ready(self, **details: Any) -> None:
        """This part serves."""
        self.is_ready, self.details = True, details
        self.heard()

    def status(self, **details: Any) -> None:
        """Passed on as the whole's."""
        self._whole.status(**details)

    def fail(self, reason: str) -> None:
        """Passed on as the whole's."""
        self._whole.fail(reason)
