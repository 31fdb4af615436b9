"""With which priority the writer runs: beside everything else, or while nothing else wants to."""

from __future__ import annotations

import contextlib
import os

NORMAL, IDLE = "normal", "idle"
LOWEST = 19


def give_way() -> None:
    """Has this process run while nothing else wants to: on Linux whoever wakes takes its processor at once.

    Being nice alone would let it finish its turn first, which every step of a delivery would have to wait for.
    """
    os.nice(LOWEST)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
