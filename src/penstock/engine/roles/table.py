"""The roles by name: what each is for, what it needs, and how it runs in its own process.

To add one, write `run(settings, lifecycle)` in its room, a function here that imports it and runs it, and a row in
ROLES. `penstock <role>` with all settings, its health port, its drain on SIGTERM and its place among the children of
`penstock dev` follow from the row; `engine/stack.py` says which of them a stack consists of.

Rooms are imported by the process that runs them only, so that the ingress does not pay for Spark.
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


# Components of one process: ready when all are ready, failed when one fails.

Run = Callable[["Settings", Lifecycle], Awaitable[None]]


async def together(runs: dict[str, Run], settings: Settings, lifecycle: Lifecycle) -> None:
    """Runs all of them until told to stop, or until one ends."""
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
        self.stopping, self.doubts = whole.stopping, whole.doubts
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

    def news(self, text: str) -> None:
        """Passed on as the whole's."""
        self._whole.news(text)

    def fail(self, reason: str) -> None:
        """Passed on as the whole's."""
        self._whole.fail(reason)


RunRole = Callable[["Settings", Lifecycle, asyncio.Event], Awaitable[None]]
"""Runs a role until it is told to stop. The event is set when what it needs is ready."""


@dataclass(frozen=True)
class Role:
    """One kind of process."""

    name: str
    purpose: str
    """A sentence for `penstock <role> --help`."""
    run: RunRole
    health_port: int
    """Where it answers probes when it is started alone and `health_port` is not set."""
    uses_kafka: bool = True
    uses_spark: bool = False
    uses_api: bool = False
    """Whether it needs the credentials that `kubeconfig` names; all roles of an installation have the same settings."""
    takes_events: bool = False
    """Whether whoever reaches its port can send events."""
    fast_loop: bool = False
    """Whether requests per second count, so that the faster event loop is worth its import."""


async def _ingress(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.ingress.service import run

    if await lifecycle.before_stop(released):
        await run(settings, lifecycle)


async def _control(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    """Controllers, and beside the embedded API the workloads that a cluster would run itself."""
    from penstock.controllers.service import run as run_controllers
    from penstock.engine.roles.claim import holding
    from penstock.kafka.admin import KafkaProbe

    runs: dict[str, Run] = {"controllers": run_controllers}
    if settings.kubeconfig is None:
        from penstock.workloads.service import run as run_workloads

        runs["workloads"] = run_workloads
    if not await lifecycle.before_stop(released):
        return
    lifecycle.doubts.append(KafkaProbe(settings).problem)
    if settings.kafka is None:  # its own: the lock of the data folder keeps every other away
        await together(runs, settings, lifecycle)
        return
    async with holding("control", settings, lifecycle) as epoch:
        if epoch is not None:
            await together(runs, settings, lifecycle)


async def _pipeline(settings: Settings, lifecycle: Lifecycle, released: asyncio.Event) -> None:
    from penstock.engine import pipeline
    from penstock.engine.roles.claim import holding
    from penstock.kafka.admin import KafkaProbe

    lifecycle.doubts.append(KafkaProbe(settings).problem)
    await pipeline.run(settings, lifecycle, released, partial(holding, "pipeline", settings, lifecycle))


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
    """The console uses what the engine offers, as the command line does: it stands above it, and is found by name."""
    room = importlib.import_module("penstock.console.app")
    if await lifecycle.before_stop(released):
        await room.run(settings, lifecycle)


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
