"""Runs the history writer with the lowest priority, so that it does not slow down deliveries."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

SLOW_DOWN = signal.SIGUSR1
"""Sent to an unthrottled writer to throttle it again."""
LOWEST_NICENESS = 19
TASKS = Path("/proc/self/task")
AUTOGROUP = Path("/proc/self/autogroup")
"""The scheduler's group of the session; empty for the first session of the machine."""
TRIES, TRY_SECONDS = 10, 0.1
"""Linux limits unprivileged users to one change of an autogroup's priority per 100 ms."""


def lower_priority() -> None:
    """Gives this process and its threads the policy SCHED_IDLE on Linux: any other process preempts it at once.

    With niceness alone it would finish its time slice first, which delays every step of a delivery. Linux distributes
    CPU time among sessions before processes, so the priority of the session is lowered too if this process leads it.
    """
    if not TASKS.is_dir():
        os.nice(LOWEST_NICENESS)
        return
    for thread in map(int, os.listdir(TASKS)):
        with contextlib.suppress(OSError):  # the thread has ended
            os.setpriority(os.PRIO_PROCESS, thread, LOWEST_NICENESS)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == os.getpid():
        _lower_autogroup()


def _lower_autogroup() -> None:
    for _ in range(TRIES):
        try:
            AUTOGROUP.write_text(str(LOWEST_NICENESS))
        except BlockingIOError:
            time.sleep(TRY_SECONDS)
        except OSError:  # a kernel without autogroups
            return
        else:
            return
