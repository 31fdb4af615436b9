"""Leader election: how this process gets a role that only one process may have at a time.

| where | elected by | source of the epoch |
|---|---|---|
| `penstock dev` with its own Kafka | the lock of the data folder; there is no standby | a record in Kafka |
| a cluster's API (`kubeconfig`) | a Lease | a record in Kafka, written when the Lease is acquired |
| elsewhere | records in Kafka | the same records |

A process that loses its role is killed at once, because another process may take it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import structlog

from penstock.runtime.errors import UserError
from penstock.runtime.lifecycle import Lifecycle, kill_process_tree
from penstock.settings import Settings

INSTANCE_VARIABLE = "PENSTOCK_INSTANCE"
"""The name of this process in claims and in reports to the control plane. It must be unique among running processes: a
restarted process of the same name takes over its own claim at once."""


def name_supervised_instance(name: str, data_dir: Path) -> None:
    """Names a child of `penstock dev`. The name survives restarts; the lock of the data folder makes it unique."""
    stack = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    os.environ.setdefault(INSTANCE_VARIABLE, f"{socket.gethostname()}-{stack}-{name}")


def name_standalone_instance(role: str) -> None:
    """Gives a role without a supervisor a unique name, unless it has a name already."""
    os.environ.setdefault(INSTANCE_VARIABLE, f"{socket.gethostname()}-{role}-{os.getpid()}-{secrets.token_hex(4)}")


def instance_name(role: str) -> str:
    """The name of this process."""
    return os.environ.get(INSTANCE_VARIABLE) or f"{role}-{os.getpid()}"


SOON_SECONDS = 1.0
"""A process that gets the role within this time does not report that it is a standby."""

log = structlog.get_logger()


class Claim(Protocol):
    """The interface of both elections."""

    def start(self) -> None:
        """Starts to compete for the role."""

    def release(self) -> None:
        """Releases the role, if this process has it."""


@contextlib.asynccontextmanager
async def hold_role(role: str, settings: Settings, lifecycle: Lifecycle) -> AsyncIterator[int | None]:
    """A context in which this process has the role; its value is the epoch, or None if stopped while standing by."""
    from penstock.observability.metrics import AT_WORK

    at_work = AT_WORK.bind(role)
    if settings.kafka is None:
        epoch = await _only_instance(role, settings)
        at_work.set(1)
        yield epoch
        return
    epoch_future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    claim = await asyncio.to_thread(_claim, role, settings, epoch_future)
    claim.start()
    try:
        chosen = await _stand_by(epoch_future, lifecycle)
        at_work.set(0 if chosen is None else 1)
        yield chosen
    finally:
        at_work.set(0)
        await asyncio.to_thread(claim.release)


async def _only_instance(role: str, settings: Settings) -> int:
    from penstock.kafka.claims import take_epoch

    return await asyncio.to_thread(take_epoch, settings, role, instance_name(role))


async def _stand_by(epoch_future: asyncio.Future[int], lifecycle: Lifecycle) -> int | None:
    stopped = asyncio.create_task(lifecycle.stopping.wait())
    either: list[asyncio.Future[Any]] = [epoch_future, stopped]
    try:
        done, _ = await asyncio.wait(either, timeout=SOON_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            lifecycle.stand_by()
            log.info("standing by: another process has the role")
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            lifecycle.take_over()
        return epoch_future.result() if epoch_future.done() else None
    finally:
        stopped.cancel()


def _claim(role: str, settings: Settings, epoch_future: asyncio.Future[int]) -> Claim:
    loop, instance = epoch_future.get_loop(), instance_name(role)

    def on_taken(epoch: int) -> None:
        loop.call_soon_threadsafe(epoch_future.set_result, epoch)

    def on_failed(error: BaseException) -> None:
        if epoch_future.done():
            kill_process_tree()
        loop.call_soon_threadsafe(epoch_future.set_exception, error)

    def on_lost(_: str) -> None:
        kill_process_tree()

    if settings.kubeconfig is None:
        from penstock.kafka.claims import LogClaim

        return LogClaim(settings, role, instance, taken=on_taken, lost=on_lost, failed=on_failed)
    from penstock.controllers.lease import LeaseClaim, MayNot
    from penstock.kafka.claims import take_epoch

    def on_lease_failed(error: BaseException) -> None:
        on_failed(UserError(str(error)) if isinstance(error, MayNot) else error)

    return LeaseClaim(
        settings,
        role,
        instance,
        taken=lambda: on_taken(take_epoch(settings, role, instance)),
        lost=on_lost,
        failed=on_lease_failed,
    )
