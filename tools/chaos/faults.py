"""Hits processes, and says when they were gone or went on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass

import psutil

from tools.chaos import victims
from tools.chaos.plan import SUPERVISOR, Fault, Way
from tools.chaos.recovery import clock
from tools.chaos.stack import Stack

FIND_SECONDS = 240.0
GONE_SECONDS = 60.0


class NotFound(RuntimeError):
    """The stack did not start the process again that is to be hit."""


@dataclass(frozen=True)
class Blow:
    """A fault that has happened."""

    struck: float
    """From when on the recovery counts: the signal, or the SIGCONT after a SIGSTOP."""
    over: float
    """When the process and everything below it was gone, or went on. What is accepted later shows a recovery."""
    obeyed: bool = True
    """Whether SIGTERM was enough."""


async def strike(fault: Fault, stack: Stack) -> Blow:
    """Waits for the victim to be there and hits it. The supervisor is started again at once."""
    victim = await find(fault.victim, stack)
    if fault.way is Way.FREEZE:
        return await freeze([victim], fault.frozen)
    family = victims.family(victim)
    struck = clock()
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.SIGKILL if fault.way is Way.KILL else signal.SIGTERM)
    obeyed = await gone(family)
    if fault.victim == SUPERVISOR:
        await stack.ended()
        over = clock()
        await stack.start()
        return Blow(struck, over, obeyed)
    return Blow(struck, clock(), obeyed)


async def find(name: str, stack: Stack) -> psutil.Process:
    """The process of this name, once it is there."""
    began = clock()
    while clock() < began + FIND_SECONDS:
        victim = victims.find(name, stack.record)
        if victim is not None and victims.alive(victim):
            return victim
        await asyncio.sleep(0.05)
    raise NotFound(f"there was no {name} for {FIND_SECONDS:g} s")


async def freeze(frozen: list[psutil.Process], seconds: float) -> Blow:
    """Stops processes for a while with SIGSTOP. What ends meanwhile has ended."""
    try:
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        await asyncio.sleep(seconds)
    finally:
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
    now = clock()
    return Blow(now, now)


async def gone(family: list[psutil.Process]) -> bool:
    """Waits until none is left. After a while those left are killed, and the answer is False."""
    began, obeyed = clock(), True
    while left := [process for process in family if victims.alive(process)]:
        if obeyed and clock() > began + GONE_SECONDS:
            obeyed = False
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        await asyncio.sleep(0.01)
    return obeyed
