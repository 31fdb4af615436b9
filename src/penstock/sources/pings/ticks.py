"""Which ticks are due: those to fire, and those missed while no process ran.

A tick that is at most a minute late is still fired, so that a restart costs none. Older ones are missed: a job for noon
that starts at three does more harm than good. They are counted and reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.resources.schedules import CronSchedule
from penstock.timestamps import rfc3339_of

LATE_SECONDS = 60
MOST_COUNTED = 1000


@dataclass(frozen=True)
class Missed:
    """Ticks that were not fired."""

    count: int
    first: int
    last: int
    why: str = "nothing ran then"

    def __str__(self) -> str:
        if self.count == 1:
            return f"the tick of {rfc3339_of(self.first)} was not fired: {self.why}"
        number = f"more than {MOST_COUNTED}" if self.count > MOST_COUNTED else str(self.count)
        span = f"from {rfc3339_of(self.first)} to {rfc3339_of(self.last)}"
        return f"{number} ticks {span} were not fired: {self.why}"


@dataclass(frozen=True)
class Due:
    """What is to be done about the ticks between two moments."""

    fire: tuple[int, ...]
    missed: Missed | None = None


def due_between(schedule: CronSchedule, last: int, now: int) -> Due:
    """The ticks after `last` until `now`."""
    limit = now - LATE_SECONDS
    missed: list[int] = []
    for tick in schedule.after(last):
        if tick >= limit or len(missed) > MOST_COUNTED:
            break
        missed.append(tick)
    fire = []
    for tick in schedule.after(max(last, limit - 1)):
        if tick > now:
            break
        fire.append(tick)
    if not missed:
        return Due(tuple(fire))
    until = limit if len(missed) > MOST_COUNTED else missed[-1]
    return Due(tuple(fire), Missed(len(missed), missed[0], until))
