"""Detects that the system clock was set, because Kafka's retention depends on it.

If the clock jumps forward by hours, new events look older than `retention_hours` to the embedded Kafka. It is then
configured to remove nothing by age, until `penstock topics --configure`. A jump back needs no action: events keep their
timestamps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from penstock.engine.topics import topic_setup
from penstock.kafka.admin import NotDone
from penstock.settings import Settings

JUMP_SECONDS = 3600.0
"""Smaller changes of the clock are ignored."""
LOOK_SECONDS = 1.0


def elapsed() -> float:
    """Seconds of a clock that cannot be set and that includes the time for which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClockWatch:
    """Compares the wall clock with a clock that cannot be set."""

    def __init__(self, wall: float, elapsed: float) -> None:
        self._offset = wall - elapsed

    def jump(self, wall: float, elapsed: float) -> float:
        """By how many seconds the clock was set since the last call (negative: back); 0 for less than an hour."""
        before, self._offset = self._offset, wall - elapsed
        moved = self._offset - before
        return moved if abs(moved) >= JUMP_SECONDS else 0.0


async def watch(settings: Settings, notice: Callable[[str], None], every: float = LOOK_SECONDS) -> None:
    """Stops the removal of events by age when the clock jumps forward; never returns."""
    clock = ClockWatch(time.time(), elapsed())
    while True:
        await asyncio.sleep(every)
        if not (jump := clock.jump(time.time(), elapsed())):
            continue
        if jump < 0:
            notice(back_notice(jump))
            continue
        while not await asyncio.to_thread(_hold_events, settings):  # noqa: ASYNC110  # Kafka may be restarting
            await asyncio.sleep(every)
        notice(forward_notice(jump, settings))


def _hold_events(settings: Settings) -> bool:
    try:
        topic_setup.hold_events(settings)
    except NotDone:
        return False
    return True


def forward_notice(jump: float, settings: Settings) -> str:
    """The notice for the user after a jump forward."""
    return (
        f"the clock of this machine was set forward by {_span(jump)}. New events now look older than retention_hours "
        f"({settings.retention_hours:g}), so events are no longer removed by age, only by size (retention_mib). When "
        "the clock is right: penstock topics --configure"
    )


def back_notice(jump: float) -> str:
    """The notice for the user after a jump back."""
    return (
        f"the clock of this machine was set back by {_span(-jump)}. Nothing is removed; events keep their timestamps, "
        "which may now be in the future"
    )


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
