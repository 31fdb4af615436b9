"""Noticing that the clock of this machine was set, which decides what Kafka removes for its age.

Forward by hours, and the embedded Kafka takes events for older than `retention_hours` which came a moment ago. So it is
kept from removing anything for its age, until a person says that the new time is right. Back, and nothing is at stake:
events keep the times that they came at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from penstock.engine.topics import topic_setup as topics
from penstock.kafka.admin import NotDone
from penstock.settings import Settings

JUMP_SECONDS = 3600.0
"""Smaller changes of the clock are of no account."""
LOOK_SECONDS = 1.0


def elapsed() -> float:
    """Seconds on a clock that cannot be set, and also runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClockWatch:
    """How far the clock was set since it was looked at last."""

    def __init__(self, wall: float, elapsed: float) -> None:
        self._offset = wall - elapsed

    def jump(self, wall: float, elapsed: float) -> float:
        """Seconds, below zero for back; 0 where it was not, or not far."""
        before, self._offset = self._offset, wall - elapsed
        moved = self._offset - before
        return moved if abs(moved) >= JUMP_SECONDS else 0.0


async def watch(settings: Settings, notice: Callable[[str], None], every: float = LOOK_SECONDS) -> None:
    """Keeps events where the clock jumps; never returns. To be run beside an embedded Kafka."""
    clock = ClockWatch(time.time(), elapsed())
    while True:
        await asyncio.sleep(every)
        if not (jump := clock.jump(time.time(), elapsed())):
            continue
        if jump < 0:
            notice(back(jump))
            continue
        while not await asyncio.to_thread(_hold, settings):  # noqa: ASYNC110  # Kafka does not tell that it is there
            await asyncio.sleep(every)
        notice(forward(jump, settings))


def _hold(settings: Settings) -> bool:
    try:
        topics.hold_events(settings)
    except NotDone:
        return False
    return True


def forward(jump: float, settings: Settings) -> str:
    """What a person should read of a clock that was set forward."""
    return (
        f"the clock of this machine was set forward by {_span(jump)}. By the new time events are older than "
        f"retention_hours ({settings.retention_hours:g}) that are not, so none is removed for its age any more, only "
        "for want of room. When the time is right: penstock topics --configure"
    )


def back(jump: float) -> str:
    """What a person should read of one that was set back."""
    return (
        f"the clock of this machine was set back by {_span(-jump)}. Nothing is removed by that; events keep the times "
        "that they came at, which may be in the future now"
    )


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
