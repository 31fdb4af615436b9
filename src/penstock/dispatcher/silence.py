"""What to do about dispatcher tasks that are not heard of. Pure: what was heard, and when, is handed in.

A task that dies is started again by Spark. One that hangs, or that never got a slot, is no failure to Spark. The former
is helped by starting the job again, which ends what hangs; the latter by nobody but those who add executors.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

HANGING_SECONDS = 30.0
"""How long tasks that were heard of may be silent, after they count as such, before the job is started again."""

START_SECONDS = 120.0
"""How long tasks may take to be heard of for the first time."""


class SilenceVerdict(enum.Enum):
    """What to do."""

    GO_ON = "go on"
    TELL = "tell that tasks have no slot"
    RESTART = "start the job again"


@dataclass
class SilenceGuard:
    """Remembers since when tasks have been silent."""

    tasks: int
    since: float | None = None
    heard_all: bool = False
    """Whether all tasks of this job were heard of at once."""

    def begin(self) -> None:
        """Another job starts."""
        self.since, self.heard_all = None, False

    def excuse(self) -> None:
        """Nothing could be heard until now, for reasons that are not the tasks'."""
        self.since = None

    def judge(self, now: float, alive: int, running: int | None) -> SilenceVerdict:
        """By the number of tasks that were heard of lately, and of those that Spark runs, where it says."""
        if alive >= self.tasks:
            self.since, self.heard_all = None, True
            return SilenceVerdict.GO_ON
        self.since = now if self.since is None else self.since
        if now - self.since <= (HANGING_SECONDS if self.heard_all else START_SECONDS):
            waiting = running is not None and running < self.tasks and now - self.since > HANGING_SECONDS
            return SilenceVerdict.TELL if waiting else SilenceVerdict.GO_ON
        return SilenceVerdict.TELL if running is not None and running < self.tasks else SilenceVerdict.RESTART
