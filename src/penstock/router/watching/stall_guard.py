"""What to do about partitions that stand still while the others move on. Pure: who is late is handed in.

A task that hangs is not dead, so Spark does nothing about it. First the query is replaced, which gives the partition
another task. Should that stand still as well, what it runs in must be at fault, and the process ends. A whole minute
lies between the start of a process and such an end, so that the supervisor never takes it for one that cannot start.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

REPLACE_SECONDS = 15.0
"""How long a partition may show nothing, although a marker is due there, before the query is replaced."""

END_SECONDS = 30.0
"""The same for the query that replaced one."""


class StallVerdict(enum.Enum):
    """What to do."""

    GO_ON = "go on"
    REPLACE = "replace the query"
    END = "end the process"


@dataclass
class StallGuard:
    """Remembers whether the query that runs is one that replaced another for standing still."""

    replaced: bool = False

    def judge(self, late: Mapping[int, float], *, steady: bool) -> StallVerdict:
        """By the partitions that are late, in seconds; `steady` after a good while in which none was."""
        longest = max(late.values(), default=0.0)
        if self.replaced:
            self.replaced = not steady
            return StallVerdict.END if longest > END_SECONDS else StallVerdict.GO_ON
        if longest <= REPLACE_SECONDS:
            return StallVerdict.GO_ON
        self.replaced = True
        return StallVerdict.REPLACE
