"""The claim of this process to a role that only one may have at a time, by whatever decides that here.

| where | who decides | where the epoch comes from |
|---|---|---|
| `penstock dev` with its own Kafka | the lock of the data folder: nobody stands by | a record in Kafka |
| a cluster's API (`kubeconfig`) | a Lease | a record in Kafka, written when the Lease is had |
| elsewhere | the records in Kafka | the same records |

A role that is lost ends the process at once, because another may begin.
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
from penstock.runtime.lifecycle import Lifecycle, end_at_once
from penstock.settings import Settings

# What a process is called among those of its role: in claims, and in what it reports to the control plane.

VARIABLE = "PENSTOCK_INSTANCE"
"""Who sets it promises that there is never more than one process of that name: one that was killed and started again
takes its own place, and need not wait for anybody."""


def name_supervised(name: str, data_dir: Path) -> None:
    """Gives a child of `penstock dev` a name that outlives it: the supervisor and its lock see to it that it is one."""
    stack = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    os.environ.setdefault(VARIABLE, f"{socket.gethostname()}-{stack}-{name}")


def name_alone(role: str) -> None:
    """Gives a role without a supervisor a name that no other process has, unless it has one already."""
    os.environ.setdefault(VARIABLE, f"{socket.gethostname()}-{role}-{os.getpid()}-{secrets.token_hex(4)}")


def instance_name(role: str) -> str:
    """The name of this process."""
    return os.environ.get(VARIABLE) or f"{role}-{os.getpid()}"


SOON_SECONDS = 1.0
"""A claim that is had so soon is not worth a word about standing by."""

log = structlog.get_logger()


class Claim(Protocol):
    """What a Lease and the records in Kafka have in common."""

    def start(self) -> None:
        """Begins to stand by."""

    def release(self) -> None:
        """Gives the role back, if this process has it."""


@contextlib.asynccontextmanager
async def holding(role: str, settings: Settings, lifecycle: Lifecycle) -> AsyncIterator[int | None]:
    """Within, this process has the role, with this epoch; None where it was told to stop while it stood by."""
    from penstock.observability.metrics import AT_WORK

    at_work = AT_WORK.bind(role)
    if settings.kafka is None:
        epoch = await _sole(role, settings)
        at_work.set(1)
        yield epoch
        return
    had: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    claim = await asyncio.to_thread(_claim, role, settings, had)
    claim.start()
    try:
        chosen = await _stand_by(had, lifecycle)
        at_work.set(0 if chosen is None else 1)
        yield chosen
    finally:
        at_work.set(0)
        await asyncio.to_thread(claim.release)


async def _sole(role: str, settings: Settings) -> int:
    from penstock.kafka.claims import take_epoch

    return await asyncio.to_thread(take_epoch, settings, role, instance_name(role))


async def _stand_by(had: asyncio.Future[int], lifecycle: Lifecycle) -> int | None:
    stopped = asyncio.create_task(lifecycle.stopping.wait())
    either: list[asyncio.Future[Any]] = [had, stopped]
    try:
        done, _ = await asyncio.wait(either, timeout=SOON_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            lifecycle.stand_by()
            log.info("stands by: another process has the role")
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            lifecycle.take_over()
        return had.result() if had.done() else None
    finally:
        stopped.cancel()


def _claim(role: str, settings: Settings, had: asyncio.Future[int]) -> Claim:
    loop, instance = had.get_loop(), instance_name(role)

    def taken(epoch: int) -> None:
        loop.call_soon_threadsafe(had.set_result, epoch)

    def failed(error: BaseException) -> None:
        if had.done():
            end_at_once()
        loop.call_soon_threadsafe(had.set_exception, error)

    def lost(_: str) -> None:
        end_at_once()

    if settings.kubeconfig is None:
        from penstock.kafka.claims import LogClaim

        return LogClaim(settings, role, instance, taken=taken, lost=lost, failed=failed)
    from penstock.controllers.lease import LeaseClaim, MayNot
    from penstock.kafka.claims import take_epoch

    def told(error: BaseException) -> None:
        failed(UserError(str(error)) if isinstance(error, MayNot) else error)

    return LeaseClaim(
        settings,
        role,
        instance,
        taken=lambda: taken(take_epoch(settings, role, instance)),
        lost=lost,
        failed=told,
    )
