"""The table of roles: what each is for, what it needs, and how it runs in its own process.

To add a role, write `run(settings, lifecycle)` in its package, a function here that imports and runs it, and a row in
ROLES. `penstock ROLE` with all settings, its health port and its drain on SIGTERM follow from the row;
`engine/stack.py` lists the components of a stack.

A package is only imported by the process that runs it, so that the ingress does not load Spark.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.runtime.lifecycle import Lifecycle

if TYPE_CHECKING:
    from penstock.settings import Settings


Run = Callable[["Settings", Lifecycle], Awaitable[None]]


async def run_together(runs: dict[str, Run], settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs several components in this process: ready when all are ready, failed when one fails."""
    parts = {name: PartLifecycle(lifecycle) for name in runs}

    def on_ready() -> None:
        if all(part.is_ready for part in parts.values()):
            lifecycle.ready(**{key: value for part in parts.values() for key, value in part.details.items()})

    for part in parts.values():
        part.on_ready = on_ready

    async def one(name: str) -> None:
        await runs[name](settings, parts[name])
        if not lifecycle.stopping.is_set():
            raise RuntimeError(f"{name} ended unexpectedly")

    async with asyncio.TaskGroup() as group:
        for name in runs:
            group.create_task(one(name), name=name)


class PartLifecycle(Lifecycle):
    """The lifecycle of one of several components in a process."""

    def __init__(self, whole: Lifecycle) -> None:
        super().__init__()
        self.stopping, self.doubts = whole.stopping, whole.doubts
        self.is_ready = False
        self.details: dict[str, Any] = {}
        self.on_ready: Callable[[], None] = lambda: None
        self._whole = whole

    def ready(self, **details: Any) -> None:
        """This component is ready."""
        self.is_ready, self.details = True, details
        self.on_ready()

    def status(self, **details: Any) -> None:
        """See `Lifecycle`."""
        self._whole.status(**details)

    def news(self, text: str) -> None:
        """See `Lifecycle`."""
        self._whole.news(text)

    def fail(self, reason: str) -> None:
        """See `Lifecycle`."""
        self._whole.fail(reason)


RunRole = Callable[["Settings", Lifecycle, asyncio.Event], Awaitable[None]]
"""Runs a role until it is stopped. The event is set when its dependencies are ready."""


@dataclass(frozen=True)
class Role:
    """One kind of process."""

    name: str
    purpose: str
    """A sentence for `penstock <role> --help`."""
    run: RunRole
    health_port: int
    """The default of `health_port` when it runs without a supervisor."""
    uses_kafka: bool = True
    uses_spark: bool = False
    uses_api: bool = False
    """Whether it needs the credentials that `kubeconfig` names; all roles of an installation have the same settings."""
    takes_events: bool = False
    """Whether events can be sent to its port."""
    fast_loop: bool = False
    """Whether it uses uvloop, which is faster but takes time to import."""


async def _ingress(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.ingress.service import run

    if await lifecycle.before_stop(released):
        await run(settings, lifecycle)


async def _control(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Controllers, and beside the embedded API the workloads that a cluster would run itself."""
    from penstock.controllers.service import run as run_controllers
    from penstock.engine.roles.claim import hold_role
    from penstock.kafka.admin import KafkaProbe

    runs: dict[str, Run] = {"controllers": run_controllers}
    if settings.kubeconfig is None:
        from penstock.workloads.service import run as run_workloads

        runs["workloads"] = run_workloads
    if not await lifecycle.before_stop(released):
        return
    lifecycle.doubts.append(KafkaProbe(settings).problem)
    if settings.kafka is None:  # the lock of the data folder excludes other processes
        await run_together(runs, settings, lifecycle)
        return
    async with hold_role("control", settings, lifecycle) as epoch:
        if epoch is not None:
            await run_together(runs, settings, lifecycle)


async def _pipeline(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.engine import pipeline
    from penstock.engine.roles.claim import hold_role
    from penstock.kafka.admin import KafkaProbe

    lifecycle.doubts.append(KafkaProbe(settings).problem)
    await pipeline.run(settings, lifecycle, released, partial(hold_role, "pipeline", settings, lifecycle))


async def _apiserver(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.apiserver.service import run
    from penstock.engine.datadir import exclusive

    with exclusive(settings.data_dir, "apiserver"):
        await run(settings, lifecycle)


async def _webhook(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.webhook.service import run

    await run(settings, lifecycle)


async def _history(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.engine.history import run_batch

    await run_batch.run(settings, lifecycle, released)


async def _console(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Imported by name, because the console is in a higher layer than the engine."""
    console = importlib.import_module("penstock.console.app")
    if await lifecycle.before_stop(released):
        await console.run(settings, lifecycle)


ROLES = (
    Role(
        "ingress",
        "Take events by HTTP and store them in Kafka.",
        _ingress,
        health_port=9091,
        takes_events=True,
        fast_loop=True,
    ),
    Role(
        "control",
        "Run the controllers: from Brokers and Triggers to routes.",
        _control,
        health_port=9092,
        uses_api=True,
    ),
    Role(
        "pipeline",
        "Route events and deliver them: the driver of the Spark application.",
        _pipeline,
        health_port=9093,
        uses_spark=True,
        uses_api=True,
    ),
    Role(
        "history",
        "Write every event and every attempt to the tables of the history, continuously.",
        _history,
        health_port=9096,
        uses_spark=True,
    ),
    Role(
        "apiserver",
        "Serve the embedded Kubernetes API.",
        _apiserver,
        health_port=9094,
        uses_kafka=False,
        fast_loop=True,
    ),
    Role(
        "webhook",
        "Fill in defaults and validate objects for the API server of an existing cluster.",
        _webhook,
        health_port=9095,
        uses_kafka=False,
        uses_api=True,
    ),
    Role("console", "Show the stack in a browser.", _console, health_port=9097, uses_kafka=False, uses_api=True),
)


def role_of(name: str) -> Role:
    """The role of a process; several of one role in a stack are numbered (`ingress-2`)."""
    wanted = name.partition("-")[0]
    for role in ROLES:
        if role.name == wanted:
            return role
    raise ValueError(f"there is no role {name!r}")


def loop_factory(role: Role) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of a role."""
    if not role.fast_loop:
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
